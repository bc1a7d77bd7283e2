# frozen_string_literal: true

require "json"
require_relative "text"

module NB
  class Server
    # One line per answer. Common is Apache's combined format with the time in the queue and in the
    # application (ms) and the request id behind it; JSON has the same as keys.
    #
    # @api private
    class AccessLog
      # What `access_log_format` may be.
      FORMATS = %i[common json].freeze

      def initialize(io, format: :common)
        raise ArgumentError, "access_log_format: must be one of #{FORMATS}" unless
          FORMATS.include?(format)

        @io = io
        @format = format
      end

      # Called from C.
      def call(env, status, bytes, queue_ns, app_ns) # rubocop:disable Metrics/ParameterLists
        @io.write(__send__(@format, env, status, bytes, queue_ns / 1e6, app_ns / 1e6))
      end

      private

      def common(env, status, bytes, queue_ms, app_ms) # rubocop:disable Metrics/ParameterLists
        format("%s - %s [%s] \"%s %s %s\" %d %d %.1fms queue %.1fms %s\n",
               *ascii(env, "REMOTE_ADDR", "REMOTE_USER"), time("%d/%b/%Y:%H:%M:%S +0000"),
               *ascii(env, "REQUEST_METHOD", "REQUEST_URI", "SERVER_PROTOCOL"), status, bytes,
               app_ms, queue_ms, *ascii(env, "HTTP_X_REQUEST_ID"))
      end

      def json(env, status, bytes, queue_ms, app_ms) # rubocop:disable Metrics/ParameterLists
        line = {time: time("%FT%TZ"), remote: Text.utf8(env["REMOTE_ADDR"]),
                method: Text.utf8(env["REQUEST_METHOD"]), uri: Text.utf8(env["REQUEST_URI"]),
                status: status, bytes: bytes, ms: app_ms.round(2), queue_ms: queue_ms.round(2),
                request_id: Text.utf8(env["HTTP_X_REQUEST_ID"])}
        "#{JSON.generate(line)}\n"
      end

      # Also what the server has put there: a middleware may have put something else.
      def ascii(env, *keys) = env.values_at(*keys).map { |value| Text.ascii(value) }

      # One String per second.
      def time(pattern)
        now = Process.clock_gettime(Process::CLOCK_REALTIME, :second)
        return @time if @second == now

        @second = now
        @time = Time.at(now).utc.strftime(pattern)
      end
    end
  end
end

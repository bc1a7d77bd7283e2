# frozen_string_literal: true

require_relative "checks"
require_relative "text"

module NB
  class Server
    # One line per response. Common is Apache's common format, followed by the time in the
    # application and in the queue (ms) and the request id. JSON has the same values under keys.
    #
    # @api private
    class AccessLog
      # The allowed values of `access_log_format`.
      FORMATS = %i[common json].freeze

      # @return [Symbol] the format
      # @raise [ArgumentError] unless it is one of {FORMATS}
      def self.check(format)
        return format if FORMATS.include?(format)

        Checks.refuse(:access_log_format, "one of #{FORMATS.map(&:inspect).join(", ")}", format)
      end

      # @param io [#write, nil]
      # @return [AccessLog, nil] nil: there is nothing to write to
      # @raise [ArgumentError] for a format that is none, in either case
      def self.to(io, format, &report)
        check(format)
        io && new(io, format: format, &report)
      end

      # @param io [#write]
      # @yield [error] that kept a line from being written; again only after a line that was
      def initialize(io, format: :common, &report)
        require "json" if format == :json
        @io = io
        @format = format
        @report = report
        @told = false
      end

      # Called from C.
      def call(env, status, bytes, queue_ns, app_ns) # rubocop:disable Metrics/ParameterLists
        @io.write(__send__(@format, env, status, bytes, queue_ns / 1e6, app_ns / 1e6))
        @told = false
      rescue StandardError => error # a full disk, a pipe that nobody reads any more
        told, @told = @told, true
        @report&.call(error) unless told
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

      # Includes what the server has set: a middleware may have replaced it.
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

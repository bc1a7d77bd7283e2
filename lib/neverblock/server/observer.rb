# frozen_string_literal: true

require_relative "text"

module NB
  class Server
    # Calls a callable after each response: `on_request`. Its exceptions end nothing; the first one
    # is reported.
    #
    # @api private
    class Observer
      # Includes `exit`: only the application's own ends the server.
      FAILURES = [StandardError, ScriptError, SystemStackError, NoMemoryError, SystemExit].freeze
      private_constant :FAILURES

      # @param callable [#call]
      # @yield [error] the first one that it raised
      def initialize(callable, &report)
        raise ArgumentError, "on_request: must respond to call, got: #{callable.inspect}" unless
          callable.respond_to?(:call)

        @callable = callable
        @report = report
      end

      # C calls this in the same way as {AccessLog#call}.
      def call(env, status, bytes, queue_ns, app_ns) # rubocop:disable Metrics/ParameterLists
        @callable.call({method: env["REQUEST_METHOD"], path: path(env),
                        status: status.zero? ? nil : status, seconds: app_ns / 1e9,
                        queue_seconds: queue_ns / 1e9, bytes: bytes})
      rescue *FAILURES => error
        report, @report = @report, nil
        report&.call(error)
      end

      private

      # Of a refused request only the request line is known.
      def path(env) = Text.utf8(env["PATH_INFO"] || env["REQUEST_URI"]&.slice(/\A[^?]*/n))
    end
  end
end

# frozen_string_literal: true

require_relative "text"

module NB
  class Server
    # Tells a callable of each answer: `on_request`. What it raises ends nothing, and is reported
    # when it happens first.
    #
    # @api private
    class Observer
      # An exit there too: only the application's ends the server.
      FAILURES = [StandardError, ScriptError, SystemStackError, NoMemoryError, SystemExit].freeze
      private_constant :FAILURES

      # @param callable [#call]
      # @yield [error] the first that it raised
      def initialize(callable, &report)
        raise ArgumentError, "on_request: must respond to call, got: #{callable.inspect}" unless
          callable.respond_to?(:call)

        @callable = callable
        @report = report
      end

      # Called from C, as {AccessLog#call} is.
      def call(env, status, bytes, queue_ns, app_ns) # rubocop:disable Metrics/ParameterLists
        @callable.call({method: env["REQUEST_METHOD"], path: path(env),
                        status: status.zero? ? nil : status, seconds: app_ns / 1e9,
                        queue_seconds: queue_ns / 1e9, bytes: bytes})
      rescue *FAILURES => error
        report, @report = @report, nil
        report&.call(error)
      end

      private

      # A request that was refused has only what its line says.
      def path(env) = Text.utf8(env["PATH_INFO"] || env["REQUEST_URI"]&.slice(/\A[^?]*/n))
    end
  end
end

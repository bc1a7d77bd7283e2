# frozen_string_literal: true

require "datadog"

module Tracing
  # In the server.
  module Vendors
    def self.start
      ::Datadog.configure do |config|
        config.tracing.instrument :rack
        config.tracing.instrument :http
        config.tracing.instrument :pg
        config.tracing.instrument :redis, command_args: true
        config.logger.level = Logger::WARN
      end
      Datadog.new
    end

    # Datadog as an application uses it.
    class Datadog
      def middleware(&block) = block.call(::Datadog::Tracing::Contrib::Rack::TraceMiddleware)

      def span(name, token)
        ::Datadog::Tracing.trace(name, tags: { "token" => token }) do |span|
          yield ->(key, value) { span.set_tag(key, value) }
        end
      end
    end
  end
end

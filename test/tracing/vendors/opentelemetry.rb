# frozen_string_literal: true

require "opentelemetry/sdk"
require "opentelemetry-exporter-otlp"
require "opentelemetry-instrumentation-rack"
require "opentelemetry-instrumentation-net_http"
require "opentelemetry-instrumentation-pg"
require "opentelemetry-instrumentation-redis"

module Tracing
  # In the server.
  module Vendors
    def self.start
      OpenTelemetry::SDK.configure do |config|
        config.service_name = "traced"
        config.use "OpenTelemetry::Instrumentation::Rack"
        config.use "OpenTelemetry::Instrumentation::Net::HTTP"
        config.use "OpenTelemetry::Instrumentation::PG", db_statement: :include
        config.use "OpenTelemetry::Instrumentation::Redis", db_statement: :include
      end
      at_exit { OpenTelemetry.tracer_provider.shutdown } # the SDK has none of its own
      OTel.new
    end

    # OpenTelemetry as an application uses it.
    class OTel
      def initialize
        @tracer = OpenTelemetry.tracer_provider.tracer("work")
      end

      def middleware(&block)
        block.call(*OpenTelemetry::Instrumentation::Rack::Instrumentation.instance.middleware_args)
      end

      def span(name, token)
        @tracer.in_span(name, attributes: { "token" => token }) do |span|
          yield ->(key, value) { span.set_attribute(key, value) }
        end
      end
    end
  end
end

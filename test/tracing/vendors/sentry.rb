# frozen_string_literal: true

require "sentry-ruby"

module Tracing
  # In the server.
  module Vendors
    def self.start
      ::Sentry.init do |config|
        config.dsn = ENV.fetch("TRACING_DSN")
        config.traces_sample_rate = 1.0
        config.enabled_patches = %i[http redis]
        config.background_worker_max_queue = 100_000
        config.sdk_logger = ::Logger.new($stderr, level: ::Logger::ERROR)
      end
      Sentry.new
    end

    # Sentry as an application uses it.
    class Sentry
      def middleware(&block) = block.call(::Sentry::Rack::CaptureExceptions)

      def span(name, token)
        ::Sentry.set_user(id: token)
        ::Sentry.with_child_span(op: "part", description: name) do |span|
          span.set_data("token", token)
          yield ->(key, value) { span.set_data(key, value) }
        end
      end
    end
  end
end

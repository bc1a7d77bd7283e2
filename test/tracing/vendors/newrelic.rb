# frozen_string_literal: true

require "newrelic_rpm"

module Tracing
  # In the server.
  module Vendors
    def self.start
      NewRelic::Agent.manual_start(sync_startup: true, dispatcher: nil)
      Newrelic.new
    end

    # New Relic as an application uses it. Its agent puts itself in front of the application.
    class Newrelic
      def middleware = nil

      def span(name, token)
        segment = NewRelic::Agent::Tracer.start_segment(name: name)
        segment.add_custom_attributes(token: token)
        yield lambda { |key, value| # of which it would cut off what is beyond 255 bytes
          segment.add_custom_attributes(key => JSON.parse(value)["traceparent"])
        }
      ensure
        segment&.finish
      end
    end
  end
end

# frozen_string_literal: true

require_relative "registry"
require_relative "../sync/inheritance"

# OpenTelemetry keeps its context in the fiber, so what a request starts by NB.gather, NB.map,
# NB.group or NB.async would begin traces of its own. Cured, its fibers begin with the context of
# the fiber that started them; what they attach is theirs.
NB::Drivers.register("opentelemetry", features: %w[opentelemetry opentelemetry-api],
                                      constant: "OpenTelemetry::Context", versions: "~> 1.0",
                                      version: "OpenTelemetry::VERSION") do |driver|
  NB::Inheritance.add do
    context = OpenTelemetry::Context.current
    if driver.on? && !context.equal?(OpenTelemetry::Context::ROOT)
      ->(block) { OpenTelemetry::Context.with_current(context) { block.call } }
    end
  end
end

# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # OpenTelemetry keeps its context in the fiber, so what a request starts by {NB.gather} or
    # {NB.async}, and what runs in an Enumerator, would begin traces of its own. Cured, a fiber
    # begins with the context of the one that started it, and one within another goes on with its;
    # what they attach is theirs.
    module OpenTelemetry
      # In front of OpenTelemetry::Context's own methods.
      module Context
        # As OpenTelemetry.
        # @api private
        def current
          context = super
          context.equal?(::OpenTelemetry::Context::ROOT) && OpenTelemetry.outer || context
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::OpenTelemetry::Context.singleton_class.prepend(Context) if
            Fiber.method_defined?(:opentelemetry_context) # from 1.6 on; a fiber-local before
          Inheritance.add(trace: true) { capture }
        end

        # @return [OpenTelemetry::Context, nil] of the loop's fiber, in a fiber within that one
        # @api private
        def outer = @driver.on? ? LoopFiber.around&.opentelemetry_context&.last : nil

        private

        def capture
          context = ::OpenTelemetry::Context.current
          return if !@driver.on? || context.equal?(::OpenTelemetry::Context::ROOT)

          ->(block) { ::OpenTelemetry::Context.with_current(context) { block.call } }
        end
      end
    end

    register("opentelemetry", features: %w[opentelemetry opentelemetry-api],
                              constant: "OpenTelemetry::Context", versions: "~> 1.0",
                              version: "OpenTelemetry::VERSION") do |driver|
      OpenTelemetry.install(driver)
    end
  end
end

# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # OpenTelemetry keeps its context in the fiber, so code that a request starts by {NB.gather} or
    # {NB.async}, or that runs in an Enumerator, would begin traces of its own. With this cure, a
    # fiber begins with the context of the one that started it, and a fiber inside another continues
    # with the outer one's context. What they attach themselves stays theirs.
    module OpenTelemetry
      # Prepended to the singleton class of OpenTelemetry::Context.
      module Context
        # Works like OpenTelemetry's own method.
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
            Fiber.method_defined?(:opentelemetry_context) # from 1.6 on; before that, a fiber-local
          Inheritance.add(trace: true) { capture }
        end

        # @return [OpenTelemetry::Context, nil] the loop's fiber's, if the caller runs in a fiber
        #   inside it
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

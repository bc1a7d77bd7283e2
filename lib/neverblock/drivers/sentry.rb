# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # sentry-ruby keeps who the user is, tags and breadcrumbs (its hub) in a thread variable, so
    # requests in fibers would report each other's. (Its `hub_isolation_level` is :thread unless
    # told otherwise, and can be nothing else on Ruby before 3.2.) Cured, the hub belongs to the
    # fiber that the loop runs; {NB.gather}, {NB.offload} and the like begin with a copy.
    module Sentry
      # Where a fiber has its hub.
      HUB = :@neverblock_sentry_hub

      # In front of the gem's module methods.
      module PerFiber
        # As sentry-ruby.
        # @api private
        def get_current_hub # rubocop:disable Naming/AccessorMethodName -- its name there
          holder = Sentry.holder or return super
          holder.instance_variable_get(HUB) || clone_hub_to_current_thread
        end

        # As sentry-ruby; also called when a request begins.
        # @api private
        def clone_hub_to_current_thread
          holder = Sentry.holder or return super
          holder.instance_variable_set(HUB, get_main_hub.clone) if initialized?
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Sentry.singleton_class.prepend(PerFiber)
          Inheritance.add(trace: true) { capture }
        end

        # @return [Fiber, nil] whose hub it is, also on a thread that got one handed on; nil: the
        #   thread's, also in the block of {NB.run}
        # @api private
        def holder
          return unless @driver.on?

          fiber = Fiber.current
          LoopFiber.current || (fiber if fiber.instance_variable_defined?(HUB))
        end

        private

        def capture
          fiber = holder
          return unless fiber || (@driver.on? && Fiber.scheduler.is_a?(Scheduler))

          hub = fiber ? fiber.instance_variable_get(HUB) : ::Sentry.get_current_hub
          hub = hub&.clone or return

          lambda do |block|
            (holder || Fiber.current).instance_variable_set(HUB, hub)
            block.call
          end
        end
      end
    end

    register("sentry-ruby", constant: "Sentry::Hub", version: "Sentry::VERSION",
                            versions: [">= 5", "< 8"]) { |driver| Sentry.install(driver) }
  end
end

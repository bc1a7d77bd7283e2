# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "job_loop"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # sentry-ruby keeps its hub (the user, tags and breadcrumbs) in a thread variable, so requests
    # in fibers would report each other's. (Its `hub_isolation_level` is :thread by default, and
    # cannot be anything else on Ruby before 3.2.) With this cure the hub belongs to the fiber that
    # the loop runs; {NB.gather}, {NB.offload} and the like start with a copy.
    module Sentry
      # A fiber keeps its hub here.
      HUB = :@neverblock_sentry_hub

      # Prepended to the singleton class of the gem's module.
      module PerFiber
        # Works like sentry-ruby's own method.
        # @api private
        def get_current_hub # rubocop:disable Naming/AccessorMethodName -- the gem's name
          holder = Sentry.holder or return super
          holder.instance_variable_get(HUB) || clone_hub_to_current_thread
        end

        # Works like sentry-ruby's own method; also called when a request begins.
        # @api private
        def clone_hub_to_current_thread
          holder = Sentry.holder or return super
          holder.instance_variable_set(HUB, get_main_hub.clone) if initialized?
        end
      end

      # Prepended to the gem's class.
      module Configuration
        # Works like sentry-ruby's own method. A job that was stopped has not failed, but
        # sentry-rails reports whatever leaves it.
        # @api private
        def exception_class_allowed?(error) = !error.is_a?(JobLoop::Stopped) && super
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Sentry.singleton_class.prepend(PerFiber)
          ::Sentry::Configuration.prepend(Configuration)
          Inheritance.add(trace: true) { capture }
        end

        # @return [Fiber, nil] the owner of the hub, also on a thread that was given one; nil: the
        #   thread owns it, also in the block of {NB.run}
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

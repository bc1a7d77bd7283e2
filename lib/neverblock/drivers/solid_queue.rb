# frozen_string_literal: true

require_relative "registry"

module NB
  module Drivers
    # Solid Queue from 1.6 on runs jobs in fibers of gem async where config/queue.yml says
    # `fibers: 100`. Cured, they are fibers of our loop, and nothing else changes: claims,
    # heartbeats, limits, stops and recovery stay Solid Queue's own ({FiberPool}). Workers with
    # `threads:` stay as they are, and so do releases before 1.6, which know no `fibers:`.
    module SolidQueue
      # In front of SolidQueue::Pool.build.
      module Build
        # As Solid Queue.
        # @api private
        def build(type:, size:, **hooks)
          type == :fiber && SolidQueue.on? ? FiberPool.new(size, **hooks) : super
        end
      end

      # In front of SolidQueue::Configuration.
      module Configuration
        private

        # As Solid Queue, but the gem that it needs is this one.
        def ensure_fiber_workers_have_required_dependency = (super unless SolidQueue.on?)
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          return unless ::SolidQueue::Pool.respond_to?(:build) && wanted?

          require_relative "solid_queue/fiber_pool"
          ::SolidQueue::Pool.singleton_class.prepend(Build)
          ::SolidQueue::Configuration.prepend(Configuration)
        end

        # @return [Boolean]
        # @api private
        def on? = @driver.on?

        private

        # Where Rails is left as it is, so is Solid Queue.
        def wanted?
          config = ::Rails.application&.config
          !config.respond_to?(:neverblock) || config.neverblock.enabled
        end
      end
    end

    # Its classes load more of Rails than is there when the gem is required.
    register("solid_queue", constant: "SolidQueue", version: "SolidQueue::VERSION") do |driver|
      ActiveSupport.on_load(:after_initialize) { SolidQueue.install(driver) }
    end
  end
end

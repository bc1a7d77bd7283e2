# frozen_string_literal: true

require_relative "registry"
require_relative "job_loop"
require_relative "solid_queue/fork_check"

module NB
  module Drivers
    # From 1.6 on, Solid Queue runs jobs in fibers of the gem async if config/queue.yml says
    # `fibers: 100`. With this cure they are fibers of our loop, and nothing else changes: claims,
    # heartbeats, limits, stops and recovery stay Solid Queue's own ({FiberPool}). Workers with
    # `threads:` stay as they are, and so do releases before 1.6, which do not know `fibers:`.
    module SolidQueue
      # Prepended to SolidQueue::Pool.build.
      module Build
        # Works like Solid Queue's own method.
        # @api private
        def build(type:, size:, **hooks)
          type == :fiber && SolidQueue.on? ? FiberPool.new(size, **hooks) : super
        end
      end

      # Prepended to SolidQueue::Configuration.
      module Configuration
        private

        # A number that is none would leave a worker that claims nothing, and says nothing.
        def ensure_whole_fibers
          return unless SolidQueue.on?

          workers_options.each do |worker|
            number = worker.fetch(:fibers, 1)
            next if number.is_a?(Integer) && number.positive?

            errors.add(:base, "fibers: must be a whole number of 1 or more, got: #{number.inspect}")
          end
        end

        # Works like Solid Queue's own method, but the gem it needs is this one.
        def ensure_fiber_workers_have_required_dependency = (super unless SolidQueue.on?)
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          return unless JobLoop.wanted?

          ::SolidQueue::Processes::Runnable.prepend(ForkCheck)
          ForkCheck.cure_puma
          return unless ::SolidQueue::Pool.respond_to?(:build)

          require_relative "solid_queue/claims"
          require_relative "solid_queue/fiber_pool"
          ::SolidQueue::Pool.singleton_class.prepend(Build)
          ::SolidQueue::Configuration.prepend(Configuration)
          ::SolidQueue::Configuration.validate(:ensure_whole_fibers)
          ::SolidQueue::Worker.prepend(Claims)
          JobStop.install
        end

        # @return [Boolean]
        # @api private
        def on? = @driver.on?

        # @return [void]
        # @api private
        def notice(text) = @driver.notice(text)
      end
    end

    # Its classes load parts of Rails that are not there yet when the gem is required.
    register("solid_queue", constant: "SolidQueue::DEFAULT_LOGGER",
                            version: "SolidQueue::VERSION",
                            versions: [">= 1", "< 2"]) do |driver|
      ActiveSupport.on_load(:after_initialize) { SolidQueue.install(driver) }
    end
  end
end

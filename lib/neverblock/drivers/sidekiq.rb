# frozen_string_literal: true

require_relative "registry"
require_relative "../fiber_state"
require_relative "job_loop"
require_relative "sidekiq/crew"

module NB
  module Drivers
    # Sidekiq runs each of its `concurrency` processors on a thread. With `fibers: true` in
    # config/sidekiq.yml, or `config[:fibers] = true` in `Sidekiq.configure_server`, the processors
    # of a capsule are fibers of one loop, on one thread ({Crew}). Nothing else changes: fetching,
    # retries, middleware, heartbeats and stops stay Sidekiq's own.
    module Sidekiq
      # Prepended to Sidekiq::Processor.
      module Processor
        # Works like Sidekiq's own method.
        # @api private
        def start
          return super unless capsule[:fibers] && Sidekiq.on? && JobLoop.wanted?

          JobStop.install
          @thread ||= Crew.of(capsule).start(Strand.new(method(:replace)) do
            identify
            watchdog("#{capsule.name}/processor") { run }
          end)
        end

        # Works like Sidekiq's own method, except that a processor without a job ends by itself,
        # because it was told to stop: otherwise a job that Redis has just handed out would be lost.
        # @api private
        def kill(wait = false)
          @thread.is_a?(Strand) && job.nil? ? terminate(wait) : super
        end

        # Works like Sidekiq's own method. A thread may keep for its next job what one has kept,
        # such as a connection of ActiveRecord outside Rails. Fibers are many, and return it.
        # @api private
        def process(...)
          super
        ensure
          FiberState.leave if @thread.is_a?(Strand)
        end

        private

        # Tells Sidekiq's manager, as the processor itself does when it ends by an error.
        def replace = @callback.call(self)

        # The id by which Sidekiq tells processors apart. Sidekiq derives it from the thread.
        def identify
          Thread.current["sidekiq_tid"] = (Fiber.current.object_id ^ ::Process.pid).to_s(36)
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Sidekiq::Processor.prepend(Processor)
        end

        # @return [Boolean]
        # @api private
        def on? = @driver.on?
      end
    end

    register("sidekiq", constant: "Sidekiq::Processor", version: "Sidekiq::VERSION",
                        versions: [">= 7.3", "< 9"],
                        features: %w[sidekiq/cli sidekiq/launcher sidekiq/embedded]) do |driver|
      Sidekiq.install(driver)
    end
  end
end

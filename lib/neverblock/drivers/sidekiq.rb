# frozen_string_literal: true

require_relative "registry"
require_relative "sidekiq/crew"

module NB
  module Drivers
    # Sidekiq runs each of its `concurrency` processors on a thread. With `fibers: true` in
    # config/sidekiq.yml, or `config[:fibers] = true` in `Sidekiq.configure_server`, those of a
    # capsule are fibers of one loop, on one thread ({Crew}). Nothing else changes: fetching,
    # retries, middleware, heartbeats and stops stay Sidekiq's own.
    module Sidekiq
      # In front of Sidekiq::Processor.
      module Processor
        # As Sidekiq.
        # @api private
        def start
          return super unless capsule[:fibers] && Sidekiq.on?

          @thread ||= Crew.of(capsule).start do
            identify
            watchdog("#{capsule.name}/processor") { run }
          end
        end

        # As Sidekiq, but one without a job ends by itself, since it was told to stop: what Redis
        # has just given it would be lost otherwise.
        # @api private
        def kill(wait = false)
          @thread.is_a?(Strand) && job.nil? ? terminate(wait) : super
        end

        private

        # By it Sidekiq tells processors apart, and makes it of the thread.
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

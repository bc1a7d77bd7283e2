# frozen_string_literal: true

require_relative "registry"
require_relative "../fiber_state"
require_relative "../fibers_setting"
require_relative "job_loop"
require_relative "sidekiq/capsule_loop"

module NB
  module Drivers
    # Sidekiq runs each of its `concurrency` processors on a thread. With `fibers: 100` in
    # config/sidekiq.yml, or `config[:fibers] = 100` in `Sidekiq.configure_server`, they are 100
    # fibers of one loop, on one thread ({CapsuleLoop}), in each capsule without its own number;
    # with `true` there are as many as `concurrency`. Nothing else changes: fetching, retries,
    # middleware, heartbeats and stops stay Sidekiq's own.
    module Sidekiq
      # Prepended to Sidekiq::Processor.
      module Processor
        # Works like Sidekiq's own method.
        # @api private
        def start
          return super unless Sidekiq.fibers(capsule)

          JobStop.install
          @thread ||= CapsuleLoop.of(capsule).start(ProcessorFiber.new(method(:replace)) do
            identify
            watchdog("#{capsule.name}/processor") { run }
          end)
        end

        # Works like Sidekiq's own method, except that a processor without a job ends by itself,
        # because it was told to stop: otherwise a job that Redis has just handed out would be lost.
        # @api private
        def kill(wait = false)
          @thread.is_a?(ProcessorFiber) && job.nil? ? terminate(wait) : super
        end

        # Works like Sidekiq's own method. A thread may keep for its next job what one has kept,
        # such as a connection of ActiveRecord outside Rails. Fibers are many, and return it.
        # @api private
        def process(...)
          super
        ensure
          FiberState.leave if @thread.is_a?(ProcessorFiber)
        end

        private

        # Tells Sidekiq's manager, as the processor itself does when it ends by an error.
        def replace = @callback.call(self)

        # The id by which Sidekiq tells processors apart. Sidekiq derives it from the thread.
        def identify
          Thread.current["sidekiq_tid"] = (Fiber.current.object_id ^ ::Process.pid).to_s(36)
        end
      end

      # Prepended to Sidekiq::Capsule. When capsules are made, their number of fibers may not be
      # known yet.
      module Capsule
        # Works like Sidekiq's own method.
        # @api private
        def concurrency
          settle
          super
        end

        # Works like Sidekiq's own method.
        # @api private
        def concurrency=(number)
          @own = number
          super
        end

        # Works like Sidekiq's own method: has as many connections as processors.
        # @api private
        def local_redis_pool
          settle
          super
        end

        private

        # The first capsule has the number that `fibers` stands for; others may have their own.
        def settle
          return if name != "default" && own?

          fibers = Sidekiq.fibers(self)
          return if !fibers.is_a?(Integer) || fibers == @concurrency

          Sidekiq.tell(fibers, @concurrency)
          @concurrency = fibers
        end

        # Those of the file were made before our gem was there.
        def own? = @own || config.dig(:capsules, name.to_sym, :concurrency)
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Sidekiq::Processor.prepend(Processor)
          ::Sidekiq::Capsule.prepend(Capsule)
        end

        # @param config [#[]] of Sidekiq
        # @return [Integer, Boolean, nil] whether its processors are fibers, and how many
        # @raise [ArgumentError] if the application says anything else
        # @api private
        def fibers(config)
          FibersSetting.read(config[:fibers]) if @driver.on? && JobLoop.wanted?
        end

        # @return [void]
        # @api private
        def tell(fibers, threads)
          text = FibersSetting.conflict(fibers, :concurrency, threads)
          @driver.notice(text) if text
        end
      end
    end

    register("sidekiq", constant: "Sidekiq::Processor", version: "Sidekiq::VERSION",
                        versions: [">= 7.3", "< 9"],
                        features: %w[sidekiq/cli sidekiq/launcher sidekiq/embedded]) do |driver|
      Sidekiq.install(driver)
    end
  end
end

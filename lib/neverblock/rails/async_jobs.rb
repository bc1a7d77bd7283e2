# frozen_string_literal: true

require_relative "../sync/fiber_pool"

module NB
  module Rails
    # Active Job's `:async` adapter: jobs that are enqueued in a loop run in fibers of it, as many
    # at a time as the adapter would have threads. Like with threads, what has not run when the
    # process ends is lost.
    module AsyncJobs
      # In front of the adapter's scheduler.
      module Fibers
        # As Rails, in a fiber.
        # @api private
        def enqueue(job, queue_name:)
          return super if immediate || !NB.running?

          fibers.spawn_apart do
            sleep(0) # the one who enqueues it goes on first, as beside a thread
            job.perform
          end
        end

        # As Rails, after a sleep in a fiber.
        # @api private
        def enqueue_at(job, timestamp, queue_name:)
          delay = timestamp - Time.current.to_f
          return super if immediate || !delay.positive? || !NB.running?

          # As with threads, the program does not stay for it.
          Fiber.schedule do
            Fiber.scheduler.idle { sleep(delay) }
            enqueue(job, queue_name: queue_name)
          end
        end

        private

        # One pool for each loop.
        def fibers
          Thread.current.thread_variable_get(:neverblock_jobs) ||
            FiberPool.new(@async_executor.max_length)
              .tap { |pool| Thread.current.thread_variable_set(:neverblock_jobs, pool) }
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:active_job) do
          ::ActiveJob::QueueAdapters::AsyncAdapter::Scheduler.prepend(Fibers)
        end
      end
    end
  end
end

# frozen_string_literal: true

require_relative "../error_report"
require_relative "../sync/fiber_pool"
require_relative "delayed_jobs"

module NB
  module Rails
    # Active Job's `:async` adapter: jobs enqueued in a loop run in fibers of that loop, as many at
    # a time as the adapter would have threads. As with threads, jobs that have not run when the
    # process ends are lost.
    module AsyncJobs
      # Prepended to the adapter's scheduler.
      module Fibers
        # Works like Rails' own method, in a fiber.
        # @api private
        def enqueue(job, queue_name:)
          return super if immediate || !NB.running? || !@async_executor.running?

          fibers.spawn_apart do
            sleep(0) # the enqueuing code continues first, as with a thread
            perform(job)
          end
        end

        # Works like Rails' own method, for the fibers of this loop.
        # @api private
        def enqueue_at(job, timestamp, queue_name:)
          delay = timestamp - Time.current.to_f
          return super if immediate || !delay.positive? || !NB.running?

          delayed.add(delay, [job, queue_name])
        end

        # Works like Rails' own method, and waits for the fibers of this loop, too.
        # @api private
        def shutdown(wait: true)
          super
          fibers.wait if wait && NB.running?
        end

        private

        # As in the adapter's threads, `exit` ends the job, not the program or the server. Active
        # Job has written an error to the log, and Rails has told its error reporter.
        def perform(job)
          job.perform
        rescue StandardError
          nil
        rescue SystemExit => error
          ErrorReport.write("neverblock: a job of Active Job's :async called exit", error)
        end

        # One pool per loop, for each adapter its own.
        def fibers = per_thread(:neverblock_jobs) { FiberPool.new(@async_executor.max_length) }

        # One per loop, like the pool.
        def delayed
          per_thread(:neverblock_delayed_jobs) do
            DelayedJobs.new { |job, queue_name| enqueue(job, queue_name: queue_name) }
          end
        end

        def per_thread(name)
          thread = Thread.current
          all = thread.thread_variable_get(name) ||
                thread.thread_variable_set(name, {}.compare_by_identity)
          all[self] ||= yield
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

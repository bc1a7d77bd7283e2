# frozen_string_literal: true

require "concurrent/executor/ruby_executor_service"
require_relative "../job_loop"

module NB
  module Drivers
    module GoodJob
      # Stands in for the pool of threads of GoodJob's scheduler: at most `max_threads:` fibers of a
      # loop on a thread of its own. The thread starts with the first task, so the scheduler may be
      # made before a fork. If the thread has been killed, the next task gets a new one.
      class Executor < ::Concurrent::RubyExecutorService
        # Seconds that jobs have to clean up when GoodJob no longer waits for them.
        GRACE = 5
        private_constant :GRACE

        # Works like GoodJob's own method.
        #
        # @return [Integer] how many more tasks could run at once
        # @thread any
        # @api private
        def ready_worker_count
          synchronize { ns_working? ? [@size - @taken, 0].max : @size }
        end

        # Where GoodJob kills threads, this stops jobs. In both cases their `ensure` blocks run.
        # @return [true]
        # @scheduling may wait
        # @api private
        def kill
          thread = synchronize { @thread }
          super
          thread&.join(GRACE)
          true
        end

        private

        def ns_initialize(options)
          @size = options.fetch(:max_threads)
          @limit = @size + options.fetch(:max_queue)
          @fallback_policy = options.fetch(:fallback_policy)
          @taken = 0
        end

        def ns_execute(*arguments, &task)
          ns_start unless ns_working?
          return fallback_action(*arguments, &task) if @taken >= @limit

          @taken += 1
          jobs = @jobs
          jobs.post { run(jobs, arguments, task) }
        end

        # A forked child has its parent's thread, but that is dead. A thread that was killed may
        # take some time to end.
        def ns_working? = %w[run sleep].include?(@thread&.status)

        def ns_start
          @taken = 0
          jobs = @jobs = JobLoop.new(@size, on_error: ::GoodJob.method(:_on_thread_error),
                                            name: "good_job")
          @thread = Thread.new do
            Thread.current.name = "#{name}-worker-fibers"
            jobs.work
          ensure
            synchronize { stopped_event.set if stop_event.set? }
          end
        end

        def run(jobs, arguments, task)
          task.call(*arguments)
        ensure
          synchronize { @taken -= 1 if jobs.equal?(@jobs) }
        end

        def ns_shutdown_execution
          ns_working? ? @jobs.close : stopped_event.set
        end

        def ns_kill_execution
          return unless ns_working?

          @jobs.close
          @jobs.stop
        end
      end
    end
  end
end

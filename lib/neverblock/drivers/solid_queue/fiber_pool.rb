# frozen_string_literal: true

require_relative "../job_loop"

module NB
  module Drivers
    module SolidQueue
      # Runs the jobs of a Solid Queue worker: in at most `size` fibers of a loop on a thread of its
      # own, beside the worker's own threads that claim jobs and send heartbeats.
      #
      # When the worker stops, jobs have `SolidQueue.shutdown_timeout` to end, as with threads.
      # Shortly before that time is over, jobs that still wait are cancelled: their `ensure` blocks
      # run, their transactions are rolled back, and neither success nor failure is recorded. So the
      # worker releases them when it deregisters, and they run again.
      class FiberPool < ::SolidQueue::Pool
        # The share of the shutdown time that cancelled jobs have to clean up, and its limit in
        # seconds. The supervisor kills the worker when all the time is over.
        GRACE = 0.1
        MAX_GRACE = 1.0
        private_constant :GRACE, :MAX_GRACE

        # Prepended to one claimed execution.
        module Cancellable
          # Works like Solid Queue's own method. A stopped job is no error, so no reporter sees one.
          # @api private
          def perform
            super
          rescue JobLoop::Stopped
            nil
          end

          private

          # Works like Solid Queue's own method, for the part that a stop may end.
          def execute = JobLoop.current.cancellable { super }
        end

        # As Solid Queue. No thread starts here: the worker is made before it is forked.
        # @api private
        def initialize(size, **hooks)
          super
          @jobs = JobLoop.new(size, on_error: method(:handle_thread_error), name: "solid_queue")
        end

        # @raise [Exception] what has ended the loop: the worker ends, and is replaced
        # @api private
        def available_capacity
          raise @fatal if @fatal

          super
        end

        # As Solid Queue.
        # @return [void]
        # @api private
        def shutdown = @jobs.close

        # As Solid Queue.
        # @api private
        def shutdown? = @jobs.closed?

        # @param timeout [Numeric] seconds
        # @return [Object, nil] nil when jobs still run
        # @api private
        def wait_for_termination(timeout)
          return true unless @thread

          grace = [timeout.to_f * GRACE, MAX_GRACE].min
          return true if @thread.join(timeout.to_f - grace)

          @jobs.stop
          @thread.join(grace)
        end

        private

        def schedule(execution)
          @thread ||= create_thread { work }
          @jobs.post { perform_execution(execution) }
        end

        def work
          @jobs.work
          @ended = true
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised in the worker
          @fatal = error
          handle_thread_error(error)
        ensure
          end_worker unless @ended
        end

        # Its jobs run no more: it is to release them.
        def end_worker
          @fatal ||= ThreadError.new("the thread of the worker's loop has ended")
          on_idle&.call
        end

        def perform_execution(execution) = super(execution.extend(Cancellable))

        def name = "neverblock jobs"
      end
    end
  end
end

# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../sync/interruption"

module NB
  module Drivers
    module SolidQueue
      # Where a worker of Solid Queue runs its jobs: at most `size` fibers of a loop on a thread of
      # its own, beside those of the worker that claim jobs and send heartbeats.
      #
      # When the worker stops, jobs have `SolidQueue.shutdown_timeout` to end, as with threads. Just
      # before it is over, those that still wait are cancelled: their `ensure` blocks run, their
      # transactions are rolled back, and neither success nor failure is noted. So the worker
      # releases them when it deregisters, and they run again.
      class FiberPool < ::SolidQueue::Pool
        # What a job gets that must not end as failed.
        Stopped = Class.new(Cancelled)
        # The share of the shutdown's time in which cancelled jobs may tidy up, and its limit in
        # seconds. The supervisor kills the worker when all the time is over.
        GRACE = 0.1
        MAX_GRACE = 1.0
        private_constant :Stopped, :GRACE, :MAX_GRACE

        # In front of one claimed execution.
        module Cancellable
          # @return [FiberPool]
          attr_writer :neverblock_pool

          # As Solid Queue. That a job was stopped is no error, and no reporter is to see one.
          # @api private
          def perform
            super
          rescue Stopped
            nil
          end

          private

          # As Solid Queue, for the part that a stop may end.
          def execute = @neverblock_pool.cancellable { super }
        end

        # As Solid Queue. No thread starts here: the worker is made before it is forked.
        # @api private
        def initialize(size, **hooks)
          super
          @executions = Thread::Queue.new
          @stop = Thread::Queue.new
          @running = {}.compare_by_identity # fiber => what would stop its job
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
        def shutdown = @executions.close

        # As Solid Queue.
        # @api private
        def shutdown? = @executions.closed?

        # @param timeout [Numeric] seconds
        # @return [Object, nil] nil when jobs still run
        # @api private
        def wait_for_termination(timeout)
          return true unless @thread

          grace = [timeout.to_f * GRACE, MAX_GRACE].min
          return true if @thread.join(timeout.to_f - grace)

          @stop << true
          @thread.join(grace)
        end

        # Runs the block so that a stop can end it.
        #
        # @return the block's value
        # @raise [NB::Cancelled] when it was stopped, whatever it made of that
        # @scheduling may wait
        # @api private
        def cancellable
          stop = @running[Fiber.current] = Stopped.new("the worker stops")
          raise stop if @stopping

          result = begin
            yield
          ensure
            @running.delete(Fiber.current)
            Fiber.scheduler.forget_interrupts # what is noted of the job is noted in full
          end
          stop.backtrace ? raise(stop) : result
        end

        private

        def schedule(execution)
          @thread ||= create_thread { work }
          @executions << execution
        end

        def work
          NB.run do
            fibers = NB::FiberPool.new(size, on_error: method(:handle_thread_error))
            NB.async(background: true) { @stop.pop && stop_all }
            while (execution = @executions.pop)
              start(fibers, execution)
            end
            fibers.close.wait
          end
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

        # A variable of its own for each job.
        def start(fibers, execution) = fibers.spawn { perform_execution(execution) }

        def perform_execution(execution)
          execution.extend(Cancellable).neverblock_pool = self
          super
        end

        def stop_all
          @stopping = true
          @running.each { |fiber, stop| Interruption.deliver(Fiber.scheduler, fiber, stop) }
        end

        def name = "neverblock jobs"
      end
    end
  end
end

# frozen_string_literal: true

module NB
  module Drivers
    # The exception that ends a queue's job early, because its worker stops. Once it has arrived in
    # the job, the queue releases the job, and the job runs again. So this exception decides,
    # whatever the job does with it: it may return, or raise another error, which Active Job would
    # otherwise retry or discard in addition.
    module JobStop
      # A fiber keeps here what would stop its job.
      KEY = :@neverblock_job_stop
      private_constant :KEY

      # Prepended to ActiveJob::Base.
      module Performing
        # Works like Active Job's own method, except in a job that is stopped: it runs again anyway.
        # @api private
        def retry_job(...)
          JobStop.check
          super
        end

        # Works like Active Job's own method, except for a stop.
        # @api private
        def rescue_with_handler(...) = (super unless JobStop.arrived)

        private

        # Works like Active Job's own method, within its `rescue`.
        def _perform_job = JobStop.first { super }

        # A stopped job is not discarded.
        def run_after_discard_procs(...) = (super unless JobStop.arrived)
      end

      class << self
        # Once Active Job may be there: Sidekiq works without it.
        # @return [void]
        # @api private
        def install
          return if @installed || !defined?(::ActiveSupport.on_load)

          @installed = true
          ActiveSupport.on_load(:active_job) { prepend(Performing) }
        end

        # @param stop [Exception, nil] what would stop the job of this fiber; nil: there is none
        # @param fiber [Fiber]
        # @return [void]
        # @thread any
        # @api private
        def set(stop, fiber = Fiber.current) = fiber.instance_variable_set(KEY, stop)

        # @return [Exception, nil] what has stopped the job of this fiber
        # @api private
        def arrived
          stop = Fiber.current.instance_variable_get(KEY)
          stop if stop&.backtrace
        end

        # @return [void]
        # @raise [Exception] what has stopped the job of this fiber. It is a new one: Active Job
        #   looks for handlers of its cause, too, and it may have arrived in a `rescue`
        # @api private
        def check
          stop = arrived or return
          raise stop.class, stop.message, stop.backtrace, cause: nil
        end

        # @return the block's value
        # @raise [Exception] what has stopped the job of this fiber, in place of the block's errors
        # @api private
        def first
          result = yield
        rescue Exception # rubocop:disable Lint/RescueException -- raised again
          check
          raise
        else
          check
          result
        end
      end
    end
  end
end

# frozen_string_literal: true

require_relative "../sync/inheritance"

module NB
  module Rails
    # `load_async` and the `async_…` queries run in fibers of the request's own thread. Without it
    # Rails runs them on threads, if it is configured to, or not at once.
    module AsyncQueries
      # In each thread pool that ActiveRecord makes for them, which keeps the queries that come from
      # outside of a loop.
      module Fibers
        # One may serve several pools of connections, in several threads.
        # @api private
        def self.extended(executor)
          executor.instance_exec do
            @fibers_scheduled ||= Concurrent::AtomicFixnum.new
            @fibers_completed ||= Concurrent::AtomicFixnum.new
          end
        end

        # As Rails, in a fiber.
        # @api private
        def post(*arguments, &block)
          return super unless NB.running?

          @fibers_scheduled.increment
          query = NB::Inheritance.trace(-> { block.call(*arguments) })
          Fiber.schedule do
            query.call
          ensure
            @fibers_completed.increment
          end
          true
        end

        # Those in fibers too.
        # @api private
        def scheduled_task_count = super + @fibers_scheduled.value
        # Those in fibers too.
        # @api private
        def completed_task_count = super + @fibers_completed.value
      end

      # In front of ActiveRecord's pool of connections.
      module Pool
        private

        def build_async_executor = super&.extend(Fibers)
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        return unless defined?(::ActiveRecord)

        ActiveSupport.on_load(:active_record) do
          ::ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Pool)
          ::ActiveRecord.async_query_executor ||= :global_thread_pool
        end
      end
    end
  end
end

# frozen_string_literal: true

require_relative "../sync/inheritance"

module NB
  module Rails
    # Runs `load_async` and the `async_…` queries in fibers of the request's own thread. By itself
    # Rails runs them on threads if so configured (`config.active_record.async_query_executor`), and
    # otherwise at once. Outside a loop it still does.
    module AsyncQueries
      # Prepended to each thread pool that ActiveRecord makes for them. That pool still runs the
      # queries from outside a loop.
      module Fibers
        # One thread pool may serve several connection pools, in several threads.
        # @api private
        def self.extended(executor)
          executor.instance_exec do
            @fibers_scheduled ||= Concurrent::AtomicFixnum.new
            @fibers_completed ||= Concurrent::AtomicFixnum.new
          end
        end

        # Works like Rails' own method, in a fiber.
        # @api private
        def post(*arguments, &block)
          return super unless NB.running?

          @fibers_scheduled.increment
          AsyncQueries.run do
            block.call(*arguments)
          ensure
            @fibers_completed.increment
          end
          true
        end

        # Includes those in fibers.
        # @api private
        def scheduled_task_count = super + @fibers_scheduled.value
        # Includes those in fibers.
        # @api private
        def completed_task_count = super + @fibers_completed.value
      end

      # Prepended to ActiveRecord's connection pool.
      module Pool
        # Works like Rails' own method; without threads for these queries, in a fiber.
        # @api private
        def schedule_query(future_result)
          return super if async_executor

          AsyncQueries.run { future_result.execute_or_skip }
        end

        private

        def build_async_executor = super&.extend(Fibers)
      end

      # Prepended to every adapter.
      module Adapter
        # Works like Rails' own method, but in a loop needs no threads. In a transaction a query
        # runs at once, as without a loop: Rails allows no asynchronous one there.
        # @api private
        def async_enabled?
          return super unless ::ActiveRecord.async_query_executor.nil? && NB.running?

          supports_concurrent_connections? && !current_transaction.joinable?
        end
      end

      # Prepended to ActiveRecord's relations. By itself Rails takes one that was loaded by
      # `load_async` for loaded even while somebody waits for its result, and if that never came,
      # because a timeout ended the wait, or the query failed. Its records would be nil, so it would
      # be blank. Here the relation is not loaded until then: whoever uses it asks the database.
      module Relation
        private

        def exec_queries(...)
          @loaded = false if scheduled? && NB.running? # #load sets it at the end
          super
        end
      end

      # Prepended to the class of results that Rails waits for. By itself Rails takes a query that a
      # timeout or a cancel has ended for one that has returned nil.
      module Result
        private

        def execute_query(...)
          ended = false
          super.tap { ended = true }
        ensure
          @pending = true unless ended || !NB.running?
        end
      end

      # Runs the block in a fiber. As on Rails' threads, its error is dropped: it got no connection.
      # Whoever asks for the result then runs the query itself, and gets the error.
      #
      # @return [void]
      # @api private
      def self.run(&block)
        query = NB::Inheritance.trace(block)
        Fiber.schedule do
          query.call
        rescue StandardError
          nil
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        return unless defined?(::ActiveRecord)

        ActiveSupport.on_load(:active_record) do
          ::ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Pool)
          ::ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Adapter)
          ::ActiveRecord::Relation.prepend(Relation)
          ::ActiveRecord::FutureResult.prepend(Result)
        end
      end
    end
  end
end

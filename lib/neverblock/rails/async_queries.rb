# frozen_string_literal: true

module NB
  module Rails
    # `load_async` and the `async_…` queries run in fibers of the request's own thread. Without it
    # Rails runs them on threads, if it is configured to, or not at once.
    module AsyncQueries
      # Stands where Rails has a thread pool.
      class Executor
        # @param threads [#call] makes what runs queries that come from outside of a loop
        def initialize(&threads)
          @make_threads = threads
        end

        # @return [void]
        # @scheduling never waits
        # @thread any
        def post(*arguments, &block)
          return threads.post(*arguments, &block) unless NB.running?

          Fiber.schedule { block.call(*arguments) }
        end

        private

        def threads = @threads ||= @make_threads.call
      end

      # In front of Rails' own, which it asks for one thread pool per process.
      module Fibers
        # @return [Executor]
        # @api private
        def global_thread_pool_async_query_executor
          @neverblock_executor ||= Executor.new { super() }
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        return unless defined?(::ActiveRecord)

        ::ActiveRecord.singleton_class.prepend(Fibers)
        # A pool of threads for each database would be the same fibers.
        ActiveSupport.on_load(:active_record) do
          ::ActiveRecord.async_query_executor = :global_thread_pool
        end
      end
    end
  end
end

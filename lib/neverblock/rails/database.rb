# frozen_string_literal: true

require_relative "connection_queue"
require_relative "database_config"
require_relative "interrupted_query"

module NB
  module Rails
    # What ActiveRecord gets: our adapters' names, and a pool that hands over in order.
    module Database
      # @return [void]
      # @scheduling never waits
      def self.install
        return if @installed

        @installed = true
        DatabaseConfig.install
        ActiveSupport.on_load(:active_record) do
          ::ActiveRecord::ConnectionAdapters::ConnectionPool::ConnectionLeasingQueue
            .prepend(ConnectionQueue)
        end
        InterruptedQuery.install
      end
    end
  end
end

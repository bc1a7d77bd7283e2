# frozen_string_literal: true

require_relative "connection_queue"
require_relative "database_config"
require_relative "interrupted_query"
require_relative "interrupted_transaction"
require_relative "returned_connection"
require_relative "room"

module NB
  module Rails
    # What ActiveRecord gets: our adapters' names, a pool that hands over in order, and transactions
    # that tell the truth when they are interrupted.
    module Database
      # @return [void]
      # @scheduling never waits
      def self.install
        return if @installed

        @installed = true
        DatabaseConfig.install
        pool = ::ActiveRecord::ConnectionAdapters::ConnectionPool
        pool::ConnectionLeasingQueue.prepend(ConnectionQueue)
        pool.prepend(Room)
        InterruptedQuery.install
        InterruptedTransaction.install
        ReturnedConnection.install
      end
    end
  end
end

# frozen_string_literal: true

require_relative "../sync/database_time"
require_relative "connection_queue"
require_relative "database_config"
require_relative "exclusive_access"
require_relative "first_use"
require_relative "interrupted_query"
require_relative "interrupted_transaction"
require_relative "pinned_lock"
require_relative "restored_transaction"
require_relative "returned_connection"
require_relative "room"

module NB
  module Rails
    # What ActiveRecord gets: the names of our adapters, a pool that serves in order of arrival, and
    # transactions that tell the truth when they are interrupted.
    module Database
      # @return [void]
      # @scheduling never waits
      def self.install
        return if @installed

        @installed = true
        DatabaseConfig.install
        pool = ::ActiveRecord::ConnectionAdapters::ConnectionPool
        pool::ConnectionLeasingQueue.prepend(ConnectionQueue)
        pool.prepend(Room, ExclusiveAccess)
        InterruptedQuery.install
        InterruptedTransaction.install
        RestoredTransaction.install
        ReturnedConnection.install
        FirstUse.install
        PinnedLock.install
        Pools.source { PoolWaits.accounts }
        count_queries
      end

      # Answers from the query cache are not queries. This is not the only subscriber: Rails has its
      # own.
      def self.count_queries
        told = ActiveSupport::Notifications
        told.monotonic_subscribe("sql.active_record") do |_, from, to, _, query| # rubocop:disable Metrics/ParameterLists
          connection = query[:connection]
          DatabaseTime.count(connection.adapter_name, to - from) if connection && !query[:cached]
        end
      end
      private_class_method :count_queries
    end
  end
end

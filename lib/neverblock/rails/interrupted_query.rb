# frozen_string_literal: true

module NB
  module Rails
    # A cancel or a timeout may leave a connection to PostgreSQL with a query that still runs. Rails
    # cancels it where it rolls a transaction back, and nowhere else. Then the next who gets the
    # connection would wait for its end, or write into a transaction that nobody ever commits: for
    # him the query is cancelled and the transaction rolled back first. mysql2 and trilogy close
    # such a connection.
    module InterruptedQuery
      # In front of Rails' adapter for PostgreSQL.
      module Settled
        # As Rails. It takes a BEGIN that was interrupted for one that was never sent; the database
        # may have carried it out.
        # @api private
        def begin_db_transaction
          super
        rescue Exception # rubocop:disable Lint/RescueException -- also that of a cancel
          settle
          raise
        end

        # See {#begin_db_transaction}.
        # @api private
        def begin_isolated_db_transaction(*)
          super
        rescue Exception # rubocop:disable Lint/RescueException -- as above
          settle
          raise
        end

        # As Rails, which asks before it rolls back to a savepoint, and waits there until the
        # interrupted query has ended.
        # @api private
        def active?
          cancel_any_running_query
          super
        end

        private

        # Brings the database to where Rails believes it to be.
        def settle
          return if @raw_connection.nil? || @raw_connection.transaction_status.zero?

          cancel_any_running_query
          return if @raw_connection.transaction_status.zero? || current_transaction.materialized?

          @raw_connection.query("ROLLBACK")
        rescue ::PG::Error
          nil # lost: its next use finds that out
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:active_record_postgresqladapter) do
          prepend(Settled)
          set_callback(:checkout, :before) { settle }
        end
      end
    end
  end
end

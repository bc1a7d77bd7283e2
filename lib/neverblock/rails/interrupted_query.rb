# frozen_string_literal: true

module NB
  module Rails
    # A cancel or a timeout may leave a connection to PostgreSQL with a query that still runs. Rails
    # cancels it where it rolls a transaction back, and nowhere else. Then the next who gets the
    # connection would wait for its end, or write into a transaction that nobody ever commits: for
    # him the query is cancelled and the transaction rolled back first. mysql2 and trilogy close
    # such a connection.
    #
    # Within a transaction that goes on, nothing is cancelled: PostgreSQL would fail the whole of
    # it, and answer its COMMIT with a rollback. See {InterruptedTransaction}.
    #
    #   interrupted            next                 what is done here
    #   BEGIN                  the exception        cancels the query, rolls back: {Settled}#settle
    #   a query                checkout             the same, before it is handed out
    #   a query                ROLLBACK TO          cancels it: cancel_before_savepoint
    #   a query                COMMIT               waits for it; raises if it has failed, as then
    #                                               COMMIT would only seem to succeed
    #   COMMIT                 the exception        cancels it, and asks whether it came too late:
    #                                               outcome_of_commit
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

        # See {InterruptedTransaction::Savepoint}.
        # @api private
        def cancel_before_savepoint
          return unless query_running?

          cancel_any_running_query
          @neverblock_cancelled = true
        end

        # As Rails, unless the database would roll back instead.
        # @api private
        def commit_db_transaction
          await_interrupted_query
          super
        end

        # Ends a COMMIT that was interrupted. See {InterruptedTransaction::Adapter}.
        # @api private
        def outcome_of_commit
          return super unless query_running?

          @raw_connection.cancel
          :committed if @raw_connection.get_last_result&.cmd_status == "COMMIT"
        rescue ::PG::Error
          super # the cancel came in time, or the connection is lost
        end

        private

        def query_running? = @raw_connection&.transaction_status == ::PG::PQTRANS_ACTIVE

        # COMMIT waits for it anyway. If it has failed PostgreSQL answers with ROLLBACK, which Rails
        # takes for success.
        def await_interrupted_query
          interrupted = query_running? || @neverblock_cancelled
          @neverblock_cancelled = false
          return unless interrupted

          @raw_connection.discard_results
          return unless @raw_connection.transaction_status == ::PG::PQTRANS_INERROR

          raise ::ActiveRecord::StatementInvalid, "a query of this transaction was interrupted " \
                                                  "and failed: PostgreSQL has rolled it back"
        end

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

# frozen_string_literal: true

module NB
  module Rails
    # A cancel or a timeout may leave a PostgreSQL connection with a query that still runs. Rails
    # cancels that query when it rolls a transaction back, and at no other time. The next user of
    # the connection would wait for the query's end, or write into a transaction that nobody ever
    # commits. With this cure, the query is cancelled and the transaction rolled back before the
    # next user gets the connection. (mysql2 and trilogy close such a connection.)
    #
    # Within a transaction that continues, nothing is cancelled: PostgreSQL would fail the whole
    # transaction, and answer its COMMIT with a rollback. See {InterruptedTransaction}.
    #
    # What happens depends on what was interrupted, and on what comes next:
    #
    #   interrupted  next           action                                  method
    #   BEGIN        the exception  cancels the query, rolls back           Settled#settle
    #   a query      checkout       the same, before the connection is lent #settle_for_next
    #   a query      ROLLBACK TO    cancels the query                       #cancel_before_savepoint
    #   a query      COMMIT         waits for it; raises if it has failed,  #commit_db_transaction
    #                               as COMMIT would only seem to succeed
    #   COMMIT       the exception  cancels it, asks if it was too late     #outcome_of_commit
    module InterruptedQuery
      # Prepended to Rails' adapter for PostgreSQL.
      module Settled
        # Works like Rails' own method. Rails takes an interrupted BEGIN for one that was never
        # sent, but the database may have carried it out.
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

        # Works like Rails' own method, unless the database would roll back instead.
        # @api private
        def commit_db_transaction
          await_interrupted_query
          super
        end

        # Ends an interrupted COMMIT. See {InterruptedTransaction::Adapter}.
        # @api private
        def outcome_of_commit
          return super unless query_running?

          @raw_connection.cancel
          @raw_connection.get_last_result&.cmd_status == "COMMIT" ? :committed : super
        rescue ::PG::Error => error
          answer?(error) ? super : :unknown # the cancel came in time, or the connection is lost
        end

        # An interrupted query, also one of a transaction, may have taken an advisory lock of the
        # session. Its user has not seen that, and does not release it; nor would anybody else.
        # @api private
        def settle_for_next
          settle
          return unless @neverblock_interrupted

          @neverblock_interrupted = false
          @raw_connection&.query("SELECT pg_advisory_unlock_all()")
        rescue ::PG::Error
          nil # a database without such locks, or a lost connection
        end

        private

        # Rails calls it before ROLLBACK.
        def cancel_any_running_query
          @neverblock_interrupted ||= query_running?
          super
        end

        def query_running? = @raw_connection&.transaction_status == ::PG::PQTRANS_ACTIVE

        # Only the database's own errors have such a code.
        def answer?(error) = !error.result&.error_field(::PG::PG_DIAG_SQLSTATE).nil?

        # COMMIT waits for the query anyway. If the query has failed, PostgreSQL answers with
        # ROLLBACK, which Rails takes for success.
        def await_interrupted_query
          interrupted = query_running? || @neverblock_cancelled
          @neverblock_cancelled = false
          return unless interrupted

          @neverblock_interrupted = true
          @raw_connection.discard_results
          return unless @raw_connection.transaction_status == ::PG::PQTRANS_INERROR

          raise ::ActiveRecord::StatementInvalid, "a query of this transaction was interrupted " \
                                                  "and failed: PostgreSQL has rolled it back"
        end

        # Brings the database into the state that Rails believes it to be in.
        def settle
          return if @raw_connection.nil? || @raw_connection.transaction_status.zero?

          cancel_any_running_query
          @raw_connection.discard_results # until then libpq says that the query runs
          return if @raw_connection.transaction_status.zero? || current_transaction.materialized?

          @raw_connection.query("ROLLBACK")
        rescue ::PG::Error
          nil # the connection is lost: its next use finds out
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:active_record_postgresqladapter) do
          prepend(Settled)
          set_callback(:checkout, :before) { settle_for_next }
        end
      end
    end
  end
end

# frozen_string_literal: true

module NB
  module Rails
    # A transaction that has written nothing yet survives the loss of its connection: Rails connects
    # again and begins it there. By itself Rails forgets the transaction if that attempt fails, too
    # (the database restarts, a timeout ends it), and later attempts then connect without it: each
    # statement of the block commits at once, and an exception in the block takes nothing back. With
    # this cure, every later attempt begins the transaction again. If Rails would connect without a
    # transaction that may have written something, an exception tells the block.
    module RestoredTransaction
      # Prepended to every adapter.
      module Adapter
        # Works like Rails' own method.
        # @raise [ActiveRecord::ConnectionNotEstablished] if that would lose a transaction
        # @api private
        def reconnect!(restore_transactions: false)
          raise lost_inside if restore_transactions && transaction_open? && !restorable?

          super
        end

        # Works like Rails' own method, but keeps the transactions if it fails.
        # @api private
        def reset_transaction(restore: false)
          kept = transactions_to_restore if restore
          super.tap { kept = nil }
        ensure
          @transaction_manager = kept if kept
        end

        private

        # Works like Rails' own method, which also forgets the transactions when it closes the
        # connection.
        def attempt_configure_connection
          kept = transactions_to_restore
          super.tap { kept = nil }
        ensure
          @transaction_manager = kept if kept
        end

        # Works like Rails' own method, which would go on to call methods of nil.
        def reconnect_can_restore_state?
          super.tap do |possible|
            raise lost_inside if !possible && @raw_connection.nil? && transaction_open?
          end
        end

        def transactions_to_restore
          transaction_manager if transaction_open? && restorable?
        end

        def restorable? = transaction_manager.restorable? && !@raw_connection_dirty
      end

      # Prepended to Rails' class for transactions of any kind.
      module Transaction
        # Works like Rails' own method, also if the last attempt failed.
        # @api private
        def restore!
          begun = materialized? || @neverblock_begun
          @neverblock_begun = false
          super
          materialize! if begun && !materialized?
          begun = false
        ensure
          @neverblock_begun = begun
        end
      end

      # Prepended to Rails' class for a block of `requires_new: true` in a transaction that has
      # written nothing. It has no statements of its own: it is restored with that transaction.
      # Rails' own method would raise InstrumentationNotStartedError.
      module Parent
        # Does nothing.
        # @return [nil]
        # @api private
        def restore! = nil
      end

      # Prepended to the adapters for MySQL before Rails 8.1. MySQL sets the isolation level by a
      # statement of its own. If the connection was lost after that, Rails connected again for BEGIN
      # alone, and the transaction had the default level.
      module Isolated
        # Works like Rails' own method of 8.1.
        # @api private
        def begin_isolated_db_transaction(isolation)
          level = transaction_isolation_levels.fetch(isolation)
          with_raw_connection(allow_retry: true, materialize_transactions: false) do
            ["SET TRANSACTION ISOLATION LEVEL #{level}", "BEGIN"].each do |sql|
              internal_execute(sql, "TRANSACTION", materialize_transactions: false)
            end
          end
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:active_record) do
          adapters = ::ActiveRecord::ConnectionAdapters
          adapters::AbstractAdapter.prepend(Adapter)
          adapters::Transaction.prepend(Transaction)
          adapters::RestartParentTransaction.prepend(Parent)
        end
        return if ::ActiveRecord.version >= Gem::Version.new("8.1.a")

        %i[active_record_mysql2adapter active_record_trilogyadapter].each do |name|
          ActiveSupport.on_load(name) { prepend(Isolated) }
        end
      end
    end
  end
end

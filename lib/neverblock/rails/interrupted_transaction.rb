# frozen_string_literal: true

module NB
  module Rails
    # A transaction in which something was interrupted either keeps everything that Rails keeps
    # under threads, or raises. It never returns as if nothing had happened.
    #
    # - Before COMMIT, Rails checks a connection it is not sure of, and replaces one that was closed
    #   (mysql2 and trilogy close it in mid-query). That COMMIT would succeed and commit nothing.
    #   With this cure it fails.
    # - An interrupted COMMIT may have been carried out. PostgreSQL is asked, and `after_commit` or
    #   `after_rollback` runs accordingly. With mysql2 and trilogy the outcome is unknown. So
    #   neither callback runs, and the connection is given up, as Rails does when it is lost during
    #   a COMMIT.
    # - If a savepoint is rolled back while a query still runs, that query is cancelled.
    # - If what a block of `requires_new: true` has written can be neither kept nor taken back, the
    #   outer block cannot go on, and the database rolls everything back.
    module InterruptedTransaction
      # Prepended to Rails' class for what BEGIN begins.
      module Real
        # Works like Rails' own method, on the very connection on which the transaction began.
        # @api private
        def commit
          return super unless materialized?

          connection.refuse_to_commit_nothing
          begin
            connection.without_replacing { super }
          rescue Exception # rubocop:disable Lint/RescueException -- also that of a cancel
            take_outcome
            raise
          end
        end

        # Works like Rails' own method. If it fails, nobody knows whether the transaction still
        # contains what the block of `requires_new: true` has written.
        # @api private
        def restart
          super
        rescue Exception # rubocop:disable Lint/RescueException -- as above
          connection.lose
          raise
        end

        # Works like Rails' own method, unless the outcome is unknown.
        # @api private
        def rollback = @outcome == :unknown ? state.invalidate! : super

        # See {#rollback}.
        # @api private
        def rollback_records = @outcome == :unknown ? nil : super

        private

        # A second interruption may strike while the database is asked.
        def take_outcome
          @outcome = :unknown
          @outcome = connection.outcome_of_commit
          return unless @outcome == :committed

          state.full_commit!
          @instrumenter.finish(:commit)
          commit_records
        end
      end

      # Prepended to Rails' class for savepoints.
      module Savepoint
        # Works like Rails' own method, which waits until the interrupted query has ended.
        # @api private
        def rollback
          connection.cancel_before_savepoint if materialized?
          super
        end

        # See {#rollback} and {Real#restart}.
        # @api private
        def restart
          connection.cancel_before_savepoint if materialized?
          super
        rescue Exception # rubocop:disable Lint/RescueException -- as above
          connection.lose
          raise
        end
      end

      # Prepended to every adapter.
      module Adapter
        # Works like Rails' own method, for the connection's next user. Rails trusts a connection
        # that was used within the last two seconds; if an interruption has closed it, that user
        # would get the error.
        # @api private
        def clean!
          @last_activity = nil if lost?
          super
        end

        # Works like Rails' own method, unless the connection has an outer transaction, whose block
        # may rescue the error. In Rails that block would get another connection, without a
        # transaction, and each of its statements would commit at once.
        # @api private
        def throw_away! = transaction_open? && current_transaction.joinable? ? lose : super

        # Closes the connection in its transactions: the database rolls back, and whatever follows
        # in a transaction that has written something raises.
        #
        # @return [void]
        # @api private
        def lose
          kept = transaction_manager
          disconnect!
        ensure
          @transaction_manager = kept
        end

        # @raise [ActiveRecord::ConnectionNotEstablished] if there is nothing left to commit
        # @api private
        def refuse_to_commit_nothing
          raise lost_inside if lost?
        end

        # Runs the block without ever replacing the connection by a new one.
        # @api private
        def without_replacing
          @neverblock_keep = true
          yield
        ensure
          @neverblock_keep = false
        end

        # The outcome of a COMMIT that raised.
        #
        # @return [Symbol, nil] :committed, :unknown, or nil: what Rails believes
        # @api private
        def outcome_of_commit = lost? ? :unknown : nil

        # Ends a query that still runs, because the savepoint's rollback would wait for it.
        #
        # @return [void]
        # @api private
        def cancel_before_savepoint = nil

        private

        def reconnect_can_restore_state? = !@neverblock_keep && super

        def lost_inside
          ::ActiveRecord::ConnectionNotEstablished.new(
            "the connection was lost inside the transaction, which the database has rolled back",
            connection_pool: pool
          )
        end

        # Trilogy only shuts its socket down; its `check` tells, without waiting.
        def lost?
          return true unless connected?

          @raw_connection.respond_to?(:check) && !@raw_connection.check
        rescue StandardError # Trilogy::Error
          true
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:active_record) do
          adapters = ::ActiveRecord::ConnectionAdapters
          adapters::AbstractAdapter.prepend(Adapter)
          adapters::RealTransaction.prepend(Real)
          adapters::SavepointTransaction.prepend(Savepoint)
        end
      end
    end
  end
end

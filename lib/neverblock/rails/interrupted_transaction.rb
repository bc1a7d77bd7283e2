# frozen_string_literal: true

module NB
  module Rails
    # A transaction in which something was interrupted either keeps all that Rails alone keeps under
    # threads, or raises; it never returns as if all was well.
    #
    # - Rails looks after a connection of which it is not sure before it sends COMMIT, and replaces
    #   one that was closed (mysql2 and trilogy close it in mid-query): the COMMIT would succeed, of
    #   nothing. Here it fails.
    # - A COMMIT that was interrupted may have been carried out. PostgreSQL is asked, and
    #   `after_commit` or `after_rollback` run as it was. With mysql2 and trilogy nobody knows, so
    #   neither runs, and the connection is given up, as Rails does where it is lost in a COMMIT.
    # - A query that still runs when its savepoint is rolled back is cancelled.
    module InterruptedTransaction
      # In front of Rails' class for what BEGIN begins.
      module Real
        # As Rails, by the very connection in which the transaction began.
        # @api private
        def commit
          return super unless materialized?

          connection.refuse_to_commit_nothing
          begin
            connection.without_replacing { super }
          rescue Exception # rubocop:disable Lint/RescueException -- also that of a cancel
            take_outcome(connection.outcome_of_commit)
            raise
          end
        end

        # As Rails, unless nobody knows.
        # @api private
        def rollback = @outcome == :unknown ? state.invalidate! : super

        # See {#rollback}.
        # @api private
        def rollback_records = @outcome == :unknown ? nil : super

        private

        def take_outcome(outcome)
          @outcome = outcome
          return unless outcome == :committed

          state.full_commit!
          @instrumenter.finish(:commit)
          commit_records
        end
      end

      # In front of Rails' class for savepoints.
      module Savepoint
        # As Rails, which waits until the interrupted query has ended.
        # @api private
        def rollback
          connection.cancel_before_savepoint if materialized?
          super
        end

        # See {#rollback}.
        # @api private
        def restart
          connection.cancel_before_savepoint if materialized?
          super
        end
      end

      # In front of every adapter.
      module Adapter
        # As Rails, for the next who has the connection. Rails takes one that was used within the
        # last two seconds for good; where an interruption has closed it, he would get the error.
        # @api private
        def clean!
          @last_activity = nil if lost?
          super
        end

        # @raise [ActiveRecord::ConnectionNotEstablished] when there is nothing left to commit
        # @api private
        def refuse_to_commit_nothing
          return unless lost?

          raise ::ActiveRecord::ConnectionNotEstablished.new(
            "the connection was lost inside the transaction, which the database has rolled back",
            connection_pool: pool
          )
        end

        # Runs the block, in which the connection is not replaced by a new one.
        # @api private
        def without_replacing
          @neverblock_keep = true
          yield
        ensure
          @neverblock_keep = false
        end

        # What became of a COMMIT that raised.
        #
        # @return [Symbol, nil] :committed, :unknown, or nil: as Rails believes
        # @api private
        def outcome_of_commit = lost? ? :unknown : nil

        # Ends a query that still runs, where the savepoint's rollback would wait for it.
        #
        # @return [void]
        # @api private
        def cancel_before_savepoint = nil

        private

        def reconnect_can_restore_state? = !@neverblock_keep && super

        # Trilogy only shuts its socket down, and tells by `check`, which does not wait.
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

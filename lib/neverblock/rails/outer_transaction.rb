# frozen_string_literal: true

module NB
  module Rails
    # Fibers of {NB.gather} and the like, and the child of {NB.in_process}, have connections of
    # their own. Started inside a transaction, they would not see what it has written, and they
    # would wait forever for rows that it has locked, because it waits for them. So a connection to
    # that database is refused to them at once.
    #
    # The block of a transaction may still gather work that needs no connection, or another
    # database's.
    module OuterTransaction
      # Key in ActiveSupport::IsolatedExecutionState: PoolConfig => the transaction. A forked child
      # has other pools.
      KEY = :neverblock_outer_transactions

      # A fiber asked for a connection to a database in which the fiber that waits for it has a
      # transaction.
      class RefusedError < ::StandardError
        include Error
      end

      # Prepended to ActiveRecord's connection pool.
      module Pool
        # Works like Rails' own method.
        # @raise [RefusedError]
        # @api private
        def checkout(*)
          OuterTransaction.check(self)
          super
        end
      end

      class << self
        # @return [void]
        # @scheduling never waits
        def install
          ActiveSupport.on_load(:active_record) do
            ::ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Pool)
          end
        end

        # @return [Hash{Object => Object}] the pools in which the calling fiber has a transaction
        # @scheduling never waits
        def open
          return {} unless defined?(::ActiveRecord::Base)

          ::ActiveRecord::Base.connection_handler.connection_pool_list(:all)
            .to_h { |pool| [pool.pool_config, transaction(pool)] }.compact
        end

        # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
        # @return [Boolean] whether the calling fiber gets no connection from this pool
        # @scheduling never waits
        def refuses?(pool)
          transaction = ActiveSupport::IsolatedExecutionState[KEY]&.[](pool.pool_config)
          !transaction.nil? && !transaction.state.finalized?
        end

        # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
        # @return [void]
        # @raise [RefusedError]
        # @scheduling never waits
        def check(pool)
          return unless refuses?(pool)

          raise RefusedError, "this was started by NB.gather, NB.map, NB.first, NB.group or " \
                              "NB.in_process inside a transaction, and would query outside " \
                              "it: query before the transaction, or in its block, one after " \
                              "the other " \
                              "(docs/RAILS.md)"
        end

        private

        # All fibers share a connection that a test has pinned.
        def transaction(pool)
          return if pool.instance_variable_get(:@pinned_connection)

          manager = pool.active_connection?&.transaction_manager
          manager.instance_variable_get(:@stack).first if manager&.open_transactions&.positive?
        end
      end
    end
  end
end

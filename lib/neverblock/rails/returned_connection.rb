# frozen_string_literal: true

require_relative "../drivers/loop_fiber"
require_relative "../fiber_state"
require_relative "../loop/scheduler"
require_relative "../sync/tidy"

module NB
  module Rails
    # Whoever gets a connection next gets it clean, and without waiting longer than necessary. In a
    # loop:
    #
    # - `Model.connection` and `lease_connection` keep a connection until Rails' executor ends.
    #   Without an executor (Sinatra, Grape), a server's thread keeps it forever. Each of its fibers
    #   would, too, and there are many more fibers than connections. Here the connection is returned
    #   when the fiber's work ends, usually the request.
    # - A transaction that `begin_transaction` or `execute("BEGIN")` began and nobody ended would be
    #   handed on, and the next user's rows would never be committed. Here such a connection is
    #   closed instead, and the database rolls back.
    #
    # And whoever waits for a connection gets it, even if somebody disconnects the pool meanwhile,
    # in whichever thread. By itself Rails then forgets whom that connection is for: a block began
    # its transaction there, its statements took another connection, and committed at once.
    module ReturnedConnection
      # Prepended to ActiveRecord's connection pool.
      module Pool
        # Works like Rails' own method, but only until the fiber's work ends. The fiber may have the
        # connection already, for the block of a transaction, and would now keep it afterwards.
        # @api private
        def lease_connection
          fiber = Drivers::LoopFiber.current unless connection_lease.sticky
          return super unless fiber # a thread keeps it, as without a loop

          super.tap { FiberState.at_end(self, fiber) { release_connection } }
        end

        # Works like Rails' own method. The return may have to wait for the pool's lock. If a
        # timeout or a cancel ends this wait, nobody else would return the connection.
        # @api private
        def release_connection(*)
          connection = active_connection? unless discarded?
          returned = false
          super.tap { returned = true }
        ensure
          checkin(connection) if !returned && connection && kept?(connection)
        end

        # Works like Rails' own method, unless the connection was left in a transaction.
        # @api private
        def checkin(connection)
          return super if @pinned_connection.equal?(connection) || !connection.left_open?

          connection.reset_transaction # nobody continues it
          synchronize { @connections = @connections.dup } # `disconnect` walks through the old list
          connection.throw_away!
        end

        private

        def kept?(connection)
          connection.owner.equal?(ActiveSupport::IsolatedExecutionState.context) &&
            @connections.include?(connection)
        end
      end

      # Prepended to every adapter.
      module Adapter
        # @return [Boolean] whether there is an open transaction that belongs to nobody any more.
        #   One that is not joinable belongs to a test, which returns its connection after each
        #   request and rolls back at its end.
        # @api private
        def left_open?
          return false unless Fiber.scheduler.is_a?(Scheduler)
          return current_transaction.joinable? if transaction_open?

          !@raw_connection.nil? && Tidy.in_transaction?(@raw_connection)
        end
      end

      # Prepended to Rails' class for who has which connection.
      module Leases
        # Does nothing: the pool has taken back each connection before, and cleared its lease. Those
        # of fibers and threads that wait for a connection are still needed.
        # @api private
        def clear; end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:active_record) do
          ::ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Pool)
          ::ActiveRecord::ConnectionAdapters::ConnectionPool::LeaseRegistry.prepend(Leases)
          ::ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Adapter)
        end
      end
    end
  end
end

# frozen_string_literal: true

require_relative "../fiber_state"
require_relative "../loop/repairs"
require_relative "../sync/tidy"
require_relative "inner_fibers"

module NB
  module Rails
    # Whoever gets a connection next gets it clean, and without waiting longer than necessary. In a
    # loop:
    #
    # - `Model.connection` and `lease_connection` keep a connection until Rails' executor ends.
    #   Without an executor (Sinatra, Grape), a server's thread keeps it forever. Each of its fibers
    #   would, too, and there are many more fibers than connections. Here the connection is returned
    #   when the fiber's work ends, usually the request.
    # - ActiveRecord does not know of a transaction that `execute("BEGIN")` began and nobody ended,
    #   and would hand it on. Here such a connection is closed instead, and the database rolls back.
    module ReturnedConnection
      # Prepended to ActiveRecord's connection pool.
      module Pool
        # Works like Rails' own method, but only until the fiber's work ends.
        # @api private
        def lease_connection
          return super if active_connection? || !Repairs.loop_here

          super.tap do
            fiber = InnerFibers.current
            next if fiber.is_a?(Thread) # a thread keeps it, as without a loop

            FiberState.at_end(self, fiber) { ReturnedConnection.release(self) }
          end
        end

        # Works like Rails' own method, unless the connection was left in a transaction.
        # @api private
        def checkin(connection)
          return super if @pinned_connection.equal?(connection) || !connection.left_open?

          connection.throw_away!
        end
      end

      # Prepended to every adapter.
      module Adapter
        # @return [Boolean] whether the database has an open transaction that ActiveRecord does not
        #   know of
        # @api private
        def left_open?
          return false if @raw_connection.nil? || transaction_open? || !Repairs.loop_here

          Tidy.in_transaction?(@raw_connection) && !current_transaction.materialized?
        end
      end

      class << self
        # @return [void]
        # @scheduling never waits
        def install
          ActiveSupport.on_load(:active_record) do
            ::ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(Pool)
            ::ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Adapter)
          end
        end

        # Takes the connection of a fiber whose work has ended. A transaction that it left open
        # belongs to nobody any more.
        # @api private
        def release(pool)
          connection = pool.active_connection? or return
          return pool.release_connection unless connection.transaction_open?

          connection.throw_away! unless pool.instance_variable_get(:@pinned_connection)
        end
      end
    end
  end
end

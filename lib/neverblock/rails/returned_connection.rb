# frozen_string_literal: true

require_relative "../fiber_state"
require_relative "../loop/repairs"
require_relative "../sync/tidy"
require_relative "inner_fibers"

module NB
  module Rails
    # Whoever gets a connection next gets it clean, and gets it in time. In a loop:
    #
    # - `Model.connection` and `lease_connection` keep a connection until Rails' executor ends. If
    #   there is none (Sinatra, Grape) a thread of a server keeps it for ever, as each of its fibers
    #   would, of which there are many more than connections: it comes back when the fiber's work
    #   ends, the request as a rule.
    # - A transaction that was begun by `execute("BEGIN")` and not ended is unknown to ActiveRecord,
    #   which would hand it on. Such a connection is closed instead: the database rolls back.
    module ReturnedConnection
      # In front of ActiveRecord's pool of connections.
      module Pool
        # As Rails, until the fiber's work ends.
        # @api private
        def lease_connection
          return super if active_connection? || !Repairs.loop_here

          super.tap do
            fiber = InnerFibers.current
            next if fiber.is_a?(Thread) # which keeps it, as without a loop

            FiberState.at_end(self, fiber) { ReturnedConnection.release(self) }
          end
        end

        # As Rails, unless it was left in a transaction.
        # @api private
        def checkin(connection)
          return super if @pinned_connection.equal?(connection) || !connection.left_open?

          connection.throw_away!
        end
      end

      # In front of every adapter.
      module Adapter
        # @return [Boolean] whether the database has a transaction open that ActiveRecord has not
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

        # Takes back what the fiber has, whose work has ended. A transaction that it has left open
        # is nobody's any more.
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

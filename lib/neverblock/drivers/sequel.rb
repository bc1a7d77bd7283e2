# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"

module NB
  module Drivers
    # Sequel lends connections to threads. In a loop that would mean: all fibers on one connection,
    # one in the other's transaction. Its own extension `fiber_concurrency` lends them to fibers;
    # here it is so within a loop, and elsewhere as it was.
    module Sequel
      # What Sequel keeps connections by.
      #
      # @return [Fiber, Thread]
      # @scheduling never waits
      def current = Repairs.loop_here && SEQUEL.on? ? Fiber.current : super

      # A timeout or a cancel in the middle of a query closes the connection of mysql2 and trilogy.
      # Sequel would find out when the next one asks for it, who gets the error; with trilogy never,
      # and the connection would stay in the pool. So it is thrown away when its block ends.
      module Database
        # Lends the block a connection.
        #
        # @yieldparam connection of the adapter
        # @return the block's value
        # @scheduling may wait
        # @thread any
        def synchronize(server = nil)
          interrupted = nil
          super(server) do |connection|
            yield connection
          rescue Exception => error # rubocop:disable Lint/RescueException -- is raised again below
            raise unless Sequel.lost?(connection)

            interrupted = error
            raise ::Sequel::DatabaseDisconnectError, "closed" # so the pool takes it out
          end
        rescue ::Sequel::DatabaseDisconnectError
          interrupted ? raise(interrupted, cause: interrupted.cause) : raise
        end

        private

        # The server has rolled back by itself.
        def rollback_transaction(connection, *) = Sequel.lost?(connection) ? nil : super
      end

      # Its pool for Ruby 3.1 has a thread sleep for 0 s with the pool's lock, so that another one
      # gets the connection. A cancelled fiber that has to wait for that lock to give its own
      # connection back would keep it.
      module Pool
        private

        def sleep(time)
          SEQUEL.on? && Repairs.loop_here && @mutex&.owned? ? @mutex.sleep(time) : super
        end
      end

      # Trilogy only shuts its socket down, and tells by `check`, which does not wait.
      #
      # @return [Boolean] whether a loop runs the caller and the connection is closed
      # @api private
      def self.lost?(connection)
        return false unless SEQUEL.on? && Repairs.loop_here && connection.respond_to?(:closed?)

        connection.closed? || (connection.respond_to?(:check) && !connection.check)
      rescue StandardError # Trilogy::Error
        true
      end
    end

    register("sequel", constant: "Sequel::Database", version: "Sequel::VERSION",
                       versions: "~> 5.25") do |driver|
      raise NoMethodError, "Sequel.current is missing" unless ::Sequel.respond_to?(:current)

      Sequel.const_set(:SEQUEL, driver)
      ::Sequel.extend(Sequel)
      ::Sequel::Database.prepend(Sequel::Database)
      ::Sequel::ConnectionPool.include(Sequel::Pool)
    end
  end
end

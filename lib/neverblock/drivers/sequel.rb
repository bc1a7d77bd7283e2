# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"
require_relative "../sync/tidy"
require_relative "sequel/accounts"

module NB
  module Drivers
    # Sequel lends connections to threads. In a loop that would mean: all fibers on one connection,
    # one in the other's transaction. Its own extension `fiber_concurrency` lends them to fibers;
    # here it is so within a loop, and elsewhere as it was.
    module Sequel
      # What the application is told.
      FAILED = "a query of this transaction was interrupted and failed: PostgreSQL rolls it back"
      private_constant :FAILED

      # What Sequel keeps connections by.
      #
      # @return [Fiber, Thread] the fiber that the loop runs, so that of an Enumerator is in the
      #   same transaction; in the block of {NB.run}, which is the thread's own code, the thread
      # @scheduling never waits
      def current
        scheduler = Fiber.scheduler
        return super unless scheduler.is_a?(Scheduler) && SEQUEL.on?

        fiber = scheduler.current || Fiber.current
        fiber.equal?(scheduler.thread_fiber) ? Thread.current : fiber
      end

      # A timeout or a cancel in the middle of a query closes the connection of mysql2 and trilogy.
      # Sequel would find out when the next one asks for it, who gets the error; with trilogy never,
      # and the connection would stay in the pool. So it is thrown away when its block ends.
      #
      # pg keeps it open, with the query still running: the next one would wait for that. So the
      # query is cancelled, and a transaction that is left rolled back. Within a transaction that
      # goes on nothing is cancelled: PostgreSQL would roll back all of it at COMMIT, silently.
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
            Sequel.settle(connection) unless _trans(connection)
            raise unless Sequel.lost?(connection)

            interrupted = error
            raise ::Sequel::DatabaseDisconnectError, "closed" # so the pool takes it out
          end
        rescue ::Sequel::DatabaseDisconnectError
          interrupted ? raise(interrupted, cause: interrupted.cause) : raise
        end

        private

        # PostgreSQL would answer with ROLLBACK, which Sequel takes for success. Where no answer has
        # come nobody knows: Sequel alone would tell `after_rollback`.
        def commit_transaction(connection, *)
          raise ::Sequel::DatabaseError, FAILED if Sequel.failed?(connection)

          super
        rescue Exception => error # rubocop:disable Lint/RescueException -- is raised again
          unless in_savepoint?(connection) || answered?(error, connection)
            _trans(connection).delete(:after_rollback)
          end
          raise
        end

        # Whether the error is what the database has answered.
        def answered?(error, connection)
          return true unless Sequel.remote?(connection)
          return false if error.is_a?(::Sequel::DatabaseDisconnectError) || Sequel.lost?(connection)

          [::Sequel::DatabaseError, *database_error_classes].any? { |type| error.is_a?(type) } &&
            !disconnect_error?(error, conn: connection)
        end

        # Where the connection is lost the server has rolled back by itself.
        def rollback_transaction(connection, *)
          Sequel.cancel(connection)&.instance_variable_set(:@neverblock_interrupted, true)
          super unless Sequel.lost?(connection)
        end
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

      # Leaves nothing of an interruption to the next one.
      #
      # @api private
      def self.settle(connection)
        return unless in_loop?

        running = cancel(connection)
        return unless running || (!postgresql?(connection) && Tidy.in_transaction?(connection))

        Tidy.call(connection)
      rescue StandardError # of the driver
        connection.close unless lost?(connection) # so the pool takes it out
      end

      # @return [Boolean] whether the cure is in force for the caller
      # @api private
      def self.in_loop? = SEQUEL.on? && !Repairs.loop_here.nil?

      # SQLite answers for itself: a COMMIT that raises has committed nothing.
      #
      # @return [Boolean] whether a server is asked, and its answer may be lost
      # @api private
      def self.remote?(connection) = in_loop? && !connection.respond_to?(:transaction_active?)

      # @return [PG::Connection, nil] the connection, if it was running a query
      # @api private
      def self.cancel(connection)
        return unless in_loop? && busy?(connection)

        connection.cancel
        connection.discard_results
        connection
      end

      # @return [Boolean] whether a query was interrupted, and failed the transaction with it
      # @api private
      def self.failed?(connection)
        running = busy?(connection)
        connection.discard_results if running # as COMMIT would
        return false unless running || connection.instance_variable_get(:@neverblock_interrupted)

        connection.instance_variable_set(:@neverblock_interrupted, false)
        connection.transaction_status == ::PG::PQTRANS_INERROR
      end

      # @return [Boolean]
      # @api private
      def self.busy?(connection)
        postgresql?(connection) && !connection.finished? &&
          connection.transaction_status == ::PG::PQTRANS_ACTIVE
      end

      # The server may have ended it, which pg alone does not call finished.
      #
      # @return [Boolean]
      # @api private
      def self.broken?(connection)
        connection.finished? || connection.status == ::PG::CONNECTION_BAD
      end

      # @return [Boolean]
      # @api private
      def self.postgresql?(connection)
        defined?(::PG::Connection) && connection.is_a?(::PG::Connection)
      end

      # Trilogy only shuts its socket down, and tells by `check`, which does not wait.
      #
      # @return [Boolean] whether a loop runs the caller and the connection is closed
      # @api private
      def self.lost?(connection)
        return false unless in_loop?
        return broken?(connection) if postgresql?(connection)
        return false unless connection.respond_to?(:closed?)

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
      Pools.source { Sequel::Accounts.all }
    end
  end
end

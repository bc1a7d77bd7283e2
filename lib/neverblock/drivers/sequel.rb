# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"
require_relative "../sync/interruption"
require_relative "../sync/tidy"
require_relative "sequel/accounts"
require_relative "sequel/connecting"
require_relative "sequel/prepared"
require_relative "sequel/timed"

module NB
  module Drivers
    # Sequel lends connections to threads. In a loop, all fibers would share one connection, each
    # inside the other's transaction. Sequel's own extension `fiber_concurrency` lends connections
    # to fibers. With this cure it does so inside a loop, and elsewhere as before.
    module Sequel
      # The notice to the application.
      FAILED = "a query of this transaction was interrupted and failed: PostgreSQL rolls it back"
      private_constant :FAILED

      # The key by which Sequel assigns connections.
      #
      # @return [Fiber, Thread] the fiber that the loop runs, so an Enumerator's fiber is in the
      #   same transaction; the thread in the block of {NB.run}, which is the thread's own code
      # @scheduling never waits
      def current
        scheduler = Fiber.scheduler
        return super unless scheduler.is_a?(Scheduler) && SEQUEL.on?

        fiber = scheduler.current || Fiber.current
        fiber.equal?(scheduler.thread_fiber) ? Thread.current : fiber
      end

      # A timeout or a cancel in mid-query closes the connection of mysql2 and trilogy. Sequel would
      # notice only when the next user gets the connection, and the error; with trilogy never, so
      # the connection would stay in the pool. Here it is thrown away when its block ends.
      #
      # pg keeps the connection open with the query still running, and the next query would wait for
      # that one. Here the query is cancelled, and an abandoned transaction is rolled back. In a
      # transaction that continues, nothing is cancelled: PostgreSQL would silently roll all of it
      # back at COMMIT.
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
            inner = Sequel.enter(connection)
            yield connection
          rescue Exception => error # rubocop:disable Lint/RescueException -- is raised again below
            error = Sequel.settle(connection) || error unless inner || _trans(connection)
            raise error, cause: error.cause unless Sequel.lost?(connection)

            interrupted = error
            raise ::Sequel::DatabaseDisconnectError, "closed" # so the pool removes it
          ensure
            Sequel.leave(connection) unless inner
          end
        rescue ::Sequel::DatabaseDisconnectError
          interrupted ? raise(interrupted, cause: interrupted.cause) : raise
        end

        private

        # PostgreSQL would answer with ROLLBACK, which Sequel takes for success. If there was no
        # answer, the outcome is unknown; without the cure Sequel would run `after_rollback`.
        def commit_transaction(connection, *)
          raise ::Sequel::DatabaseError, FAILED if Sequel.failed?(connection)

          super
        rescue Exception => error # rubocop:disable Lint/RescueException -- is raised again
          if in_savepoint?(connection)
            Sequel.give_up(connection, error)
          elsif !answered?(error, connection)
            _trans(connection).delete(:after_rollback)
          end
          raise
        end

        # Whether the error is the database's answer.
        def answered?(error, connection)
          return true unless Sequel.remote?(connection)
          return false if error.is_a?(::Sequel::DatabaseDisconnectError) || Sequel.lost?(connection)

          [::Sequel::DatabaseError, *database_error_classes].any? { |type| error.is_a?(type) } &&
            !disconnect_error?(error, conn: connection)
        end

        # If the connection is lost, the server has rolled back by itself.
        def rollback_transaction(connection, *)
          savepoint = in_savepoint?(connection)
          cut = Sequel.cancel(connection)
          # The next transaction is another one.
          connection.instance_variable_set(:@neverblock_interrupted, savepoint) if cut || !savepoint
          super unless Sequel.lost?(connection)
        rescue Exception => error # rubocop:disable Lint/RescueException -- is raised again
          Sequel.give_up(connection, error)
          raise
        end
      end

      # Sequel's pool for Ruby 3.1 lets a thread sleep for 0 s while it holds the pool's lock, so
      # that another thread gets the connection. A cancelled fiber that has to wait for that lock to
      # return its own connection would keep it.
      module Pool
        private

        def sleep(time)
          SEQUEL.in_loop? && @mutex&.owned? ? @mutex.sleep(time) : super
        end
      end

      # @return [Boolean] whether a block around this one has the connection, and perhaps a
      #   transaction that it began by SQL of its own
      # @api private
      def self.enter(connection)
        return true if connection.instance_variable_get(:@neverblock_held)

        connection.instance_variable_set(:@neverblock_held, true)
        false
      end

      # @return [void]
      # @api private
      def self.leave(connection)
        held = connection.instance_variable_get(:@neverblock_held)
        connection.instance_variable_set(:@neverblock_held, false)
        release_locks(connection) if held == :interrupted
      end

      # An interrupted query of PostgreSQL may have taken an advisory lock of the session, which its
      # user has not seen.
      def self.release_locks(connection)
        connection.exec("SELECT pg_advisory_unlock_all()")
      rescue ::PG::Error
        nil # a database without such locks, or a lost connection
      end
      private_class_method :release_locks

      # Notes for {leave} whether the connection still runs the query that an exception has ended.
      #
      # @return [void]
      # @api private
      def self.note_interruption(connection)
        return unless in_loop? && busy?(connection)

        held = connection.instance_variable_get(:@neverblock_held)
        connection.instance_variable_set(:@neverblock_held, :interrupted) if held
      end

      # Leaves nothing of an interruption to the next user. If that fails, or a second interruption
      # strikes, the connection is closed, so the pool removes it.
      #
      # @return [Exception, nil] the second interruption
      # @api private
      def self.settle(connection)
        return unless in_loop?

        settled = false
        running = cancel(connection)
        open = running || (!postgresql?(connection) && Tidy.left_open?(connection))
        Tidy.call(connection) if open
        settled = true
        nil
      rescue Exception => error # rubocop:disable Lint/RescueException -- the caller raises it
        error if Interruption.struck?(error) # otherwise it is the driver's
      ensure
        connection.close if settled == false && !lost?(connection)
      end

      # Closes a connection whose COMMIT of a savepoint, or whose rollback, was interrupted. Nobody
      # knows what the transaction still contains, so a block around it must not commit it.
      #
      # @return [void]
      # @api private
      def self.give_up(connection, error)
        connection.close if in_loop? && Interruption.struck?(error) && !lost?(connection)
      end

      # @return [Boolean] whether the cure is in force for the caller
      # @api private
      def self.in_loop? = SEQUEL.in_loop?

      # SQLite needs no server: a COMMIT that raises has committed nothing.
      #
      # @return [Boolean] whether a server is asked, whose answer may be lost
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

      # @return [Boolean] whether a query was interrupted, which failed the transaction
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

      # The server may have ended it; pg alone does not report that as finished.
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

      # Trilogy only shuts its socket down; its `check` tells, without waiting.
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
      ::Sequel::Database.prepend(Sequel::Database, Sequel::Prepared, Sequel::Timed)
      ::Sequel::ConnectionPool.include(Sequel::Pool)
      ::Sequel::ConnectionPool.prepend(Sequel::Connecting)
      Pools.source { Sequel::Accounts.all }
    end
  end
end

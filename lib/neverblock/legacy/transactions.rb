# frozen_string_literal: true

require_relative "../fiber_state"
require_relative "locals"
require_relative "names"

module NB
  module Legacy
    # The transactions of 2008: the fiber holds one connection from the begin until the commit or
    # the rollback, and all its commands in between go to that connection.
    #
    # @example
    #   pool.begin_db_transaction
    #   pool.hold { |connection| connection.query("DELETE FROM forums") }
    #   pool.commit_db_transaction
    module Transactions
      # What a fiber is told that goes on in a transaction whose connection is closed.
      LOST = "this fiber's transaction is over: an interruption has cost its connection, and the " \
             "database has rolled back; roll back, or begin anew"
      private_constant :LOST

      # Holds a connection for this fiber, and begins a transaction on it.
      #
      # @return what the connection returns: its own `begin_db_transaction`, if it has one, or BEGIN
      # @raise what the connection raises; then the fiber does not hold it
      # @scheduling may wait
      def begin_db_transaction = transact(:begin_db_transaction, "BEGIN")

      # Commits the fiber's transaction, and returns its connection, even if that fails.
      #
      # @return what the connection returns
      # @raise what the connection raises
      # @scheduling may wait
      def commit_db_transaction = transact(:commit_db_transaction, "COMMIT")

      # Rolls the fiber's transaction back, and returns its connection, even if that fails.
      #
      # @return what the connection returns
      # @raise what the connection raises
      # @scheduling may wait
      def rollback_db_transaction = transact(:rollback_db_transaction, "ROLLBACK")

      private

      def transact(name, sql)
        fiber = ::Fiber.current
        Locals.of(fiber).delete(self) if lost?(fiber) && sql != "COMMIT"
        return start_transaction(fiber, name, sql) if sql == "BEGIN"

        begin
          hold { |connection| send_transaction(connection, name, sql) }
        ensure
          release(fiber) if Locals.of(fiber).delete(self)
        end
      end

      # Its next commands would go to another connection, each of them a transaction of its own.
      def lost?(fiber) = Locals.of(fiber)[self] && held_by(fiber).nil?

      # Inside of a `hold`, the end of that returns the connection, not the end of the transaction.
      # A second begin is the database's to judge: the first one still holds the connection.
      def start_transaction(fiber, name, sql)
        ours = held_by(fiber).nil?
        answer = hold(true) { |connection| send_transaction(connection, name, sql) }
        keep_for(fiber) if ours
        begun = true
        answer
      ensure
        release(fiber) if ours && !begun
      end

      # What the fiber's work leaves open is rolled back, by closing the connection. Each piece of
      # work of a pooled fiber has its own callbacks, and needs one of these.
      def keep_for(fiber)
        locals = Locals.of(fiber)
        locals[self] = true
        close = -> { discard_of(fiber) if locals.delete(self) }
        callbacks = locals[:callbacks] or return FiberState.at_end(self, &close)
        return if callbacks.equal?(locals[[self, :callbacks]])

        locals[[self, :callbacks]] = callbacks << close
      end

      def send_transaction(connection, name, sql)
        return connection.public_send(name) if connection.respond_to?(name)

        connection.query(sql)
      end
    end
  end
end

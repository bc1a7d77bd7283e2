# frozen_string_literal: true

require_relative "../fiber_state"
require_relative "db"
require_relative "fibered_connection_pool"
require_relative "transactions"

module NB
  module DB
    # Looks like one connection and is a pool of connections: each call uses a connection that the
    # fiber holds. In a block of {NB::Pool::FiberPool}, the fiber keeps the same one until the block
    # ends. Other fibers keep it for the call, or as long as their transaction, but not beyond the
    # request: a connection left open in a transaction is closed, and the server rolls back.
    #
    # @example
    #   db = NB::DB::PooledDBConnection.new(12) { NB::DB::FPGconn.connect(dbname: "test") }
    #   NB.run { 100.times { NB.async { db.exec("SELECT pg_sleep(1)") } } }
    class PooledDBConnection
      include Legacy::Transactions

      # The commands that begin and end a transaction, for drivers that cannot be asked.
      BEGINS = /\A\s*(?:BEGIN|START\s+TRANSACTION)\b/i
      ROLLS_BACK = /\A\s*ROLLBACK\b(?!\s+TO\b)(?!\s+WORK\s+TO\b)/i
      ENDS = /\A\s*(?:COMMIT|END)\b|#{ROLLS_BACK}/i
      private_constant :BEGINS, :ROLLS_BACK, :ENDS

      # @param size [Integer] the maximum number of connections
      # @yieldreturn [Object] a new connection
      def initialize(size = 4, &connect)
        raise ArgumentError, "a pooled connection needs a block that connects" unless connect

        @pool = Pool::FiberedConnectionPool.new(size: size, &connect)
        @open = Object.new # the key of the fiber's local that tells whether it is in a transaction
      end

      # Runs a command on this fiber's connection.
      #
      # @param sql [String]
      # @return what the driver returns
      # @raise what the driver raises
      # @scheduling may wait
      def exec(sql, ...) = hold(sql) { |connection| connection.query(sql, ...) }
      alias query exec

      # Replaces this fiber's lost connection.
      #
      # @return [Object] the new one
      # @scheduling may wait, as connecting may
      def replace_acquired_connection = @pool.replace_acquired_connection

      # Sends every other call to this fiber's connection.
      # @api private
      def method_missing(name, *arguments, **options, &block)
        hold { |connection| connection.public_send(name, *arguments, **options, &block) }
      end

      # @api private
      def respond_to_missing?(name, include_private = false)
        known = nil
        @pool.all_connections { |connection| known ||= connection }
        known.respond_to?(name, include_private)
      end

      private

      def transact(name, sql)
        hold(sql) { |connection| send_transaction(connection, name, sql) }
      end

      def hold(sql = nil)
        fiber = ::Fiber.current
        go_on(fiber, sql) if lost?(fiber)
        @pool.hold(true) do |connection|
          keep_until_end(fiber)
          yield connection
        end
      ensure
        @pool.release(fiber) unless keeps?(fiber, sql)
      end

      def lost?(fiber) = fiber_local(fiber, @open) && @pool.held_by(fiber).nil?

      # The database has rolled back. What goes on in that transaction must not count without it.
      def go_on(fiber, sql)
        fresh = sql&.b&.match?(BEGINS) || sql&.b&.match?(ROLLS_BACK)
        Legacy::Locals.of(fiber).delete(@open) if fresh || sql&.b&.match?(ENDS)
        raise NBError, LOST unless fresh
      end

      # In a fiber of a pool, the callback releases it.
      def keep_until_end(fiber)
        callbacks = fiber_local(fiber, :callbacks)
        return if callbacks.nil? || fiber_local(fiber, self)

        Legacy::Locals.of(fiber)[self] = :until_end
        callbacks << lambda do
          Legacy::Locals.of(fiber).delete(self)
          Legacy::Locals.of(fiber).delete(@open)
          @pool.release(fiber)
        end
      end

      # Whether the fiber keeps the connection until its own end, or the end of the transaction.
      def keeps?(fiber, sql)
        locals = Legacy::Locals.of(fiber)
        before = locals[self]
        connection = @pool.held_by(fiber) # nil if it was lost
        locals[@open] = in_transaction?(connection, sql, locals[@open]) if connection
        return true if before == :until_end

        kept = connection && locals[@open]
        FiberState.at_end(self) { leave(fiber) } if kept && !before
        locals[self] = kept
      end

      # The work of a pooled fiber ended inside a transaction.
      def leave(fiber)
        Legacy::Locals.of(fiber).delete(@open)
        @pool.discard_of(fiber) if Legacy::Locals.of(fiber).delete(self)
      end

      def in_transaction?(connection, sql, before)
        return !connection.transaction_status.zero? if connection.respond_to?(:transaction_status)

        open = Tidy.in_transaction?(connection) # as mysql2 and trilogy can tell
        return open unless open.nil?

        (before || sql&.b&.match?(BEGINS)) && !sql&.b&.match?(ENDS)
      end

      def fiber_local(fiber, key) = Legacy::Locals.of(fiber)[key]
    end
  end
end

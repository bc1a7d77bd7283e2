# frozen_string_literal: true

require_relative "../sync/tidy"
require_relative "hand"
require_relative "pool"
require_relative "postgres_commands"
require_relative "transactions"

module NB
  module Pool
    # The connection pool of 2008. A fiber holds a connection for a block, or until it returns it
    # (transactions). Fibers that find none free wait in a queue, with or without a loop. New code
    # uses {NB::ConnectionPool}, which also has timeouts and serves several threads.
    #
    # A connection comes back clean or not at all: one that is in mid-transaction or mid-answer is
    # closed, and its place becomes free.
    #
    # @example
    #   pool = NB::Pool::FiberedConnectionPool.new(size: 12) { PG.connect(dbname: "test") }
    #   pool.hold { |connection| connection.exec("SELECT 1") }
    # @example As in the first article: 12 connections to PostgreSQL, and one for blocking requests
    #   pool = NB::Pool::FiberedConnectionPool.new({ dbname: "test" }, 12)
    #   pool.exec("SELECT 1", true)
    class FiberedConnectionPool
      include Legacy::PostgresCommands
      include Legacy::Transactions

      # @return [Integer] the maximum number of connections, not counting the one for blocking
      #   requests
      attr_reader :size

      # @param options [Hash] with a block: `size:` (8) and `eager:`, whether all connections are
      #   made now; without a block: the arguments of PG.connect, and all are made now
      # @param count [Integer] the maximum number of connections
      # @yieldreturn [Object] a new connection
      # @raise [ArgumentError] if there is neither a block nor something to connect to
      # @scheduling may wait, as connecting may
      def initialize(options = {}, count = nil, &connect)
        @connections = []
        @busy_connections = {}.compare_by_identity
        @queue = []
        @size = Integer(count || (connect && options[:size]) || 8)
        raise ArgumentError, "size must be 1 or more, got: #{@size}" if @size < 1

        @connect = connect || postgres_connect(options)
        @size.times { @connections << @connect.call } if connect.nil? || options[:eager]
      end

      # Lends a connection to the current fiber. If it holds one already, that one is used again,
      # and stays with the fiber.
      #
      # @param transactional [Boolean] true: the fiber keeps it after the block, until {#release}
      # @yieldparam connection [Object]
      # @return the block's value
      # @raise [NBError] if all are in use and the caller cannot wait: it has neither a loop nor a
      #   fiber
      # @scheduling may wait
      def hold(transactional = false)
        fiber = ::Fiber.current
        kept = transactional || @busy_connections[fiber]
        value = yield(@busy_connections[fiber] || acquire(fiber))
        whole = true
        value
      ensure
        begin
          leave(fiber, kept, whole)
          left = true
        ensure
          leave(fiber, kept, whole, interrupted: true) unless left
        end
      end

      # Takes a connection back, and gives it to the fiber that has waited longest.
      #
      # @param fiber [Fiber] its holder
      # @param connection [Object] may be left out
      # @return [void]
      # @scheduling never waits in a loop; without one the next fiber runs now
      def release(fiber, connection = @busy_connections[fiber])
        return unless @busy_connections.key?(fiber)

        begin
          @busy_connections.delete(fiber)
          take_back(connection) if connection
        ensure
          serve_queue
        end
      end

      # Replaces this fiber's lost connection, and closes the old one.
      #
      # @return [Object] the new one
      # @raise [NBError] if this fiber holds none
      # @scheduling may wait, as connecting may
      def replace_acquired_connection
        fiber = ::Fiber.current
        old = @busy_connections[fiber] or raise NBError, "this fiber holds no connection"
        discard(old)
        @busy_connections[fiber] = @connect.call
      end

      # @yieldparam connection [Object] every existing one, in use or not
      # @return [void]
      def all_connections(&block)
        (@connections + @busy_connections.values.compact).each(&block)
      end

      # Closes the connection of a fiber that left it in the middle, and frees its place.
      # @api private
      def discard_of(fiber)
        spoil(fiber)
        release(fiber)
      end

      # @return [Object, nil] the connection of this fiber
      # @api private
      def held_by(fiber) = @busy_connections[fiber]

      private

      # A second interrupt may come before it is known what the first one was: then, too, the
      # connection must not be used again.
      def leave(fiber, kept, whole, interrupted: false)
        spoil(fiber) if !whole && (interrupted || Interruption.struck_block?($!))
        release(fiber) unless kept && @busy_connections[fiber]
      end

      def take_back(connection)
        clean = clean?(connection)
        @connections.push(connection) if clean
      ensure
        discard(connection) unless clean
      end

      # If the connection is nil, the fiber has a place and makes the connection itself.
      def acquire(fiber)
        raise NBError, LOST if lost?(fiber)

        reclaim
        if full?
          wait_in_queue(fiber)
        else
          @busy_connections[fiber] = @connections.pop
        end
        @busy_connections[fiber] ||= @connect.call
      end

      def full? = @connections.empty? && @busy_connections.size >= @size

      def wait_in_queue(fiber)
        hand = Legacy::Hand.new
        @queue.push(hand)
        hand.wait until @busy_connections.key?(fiber)
      ensure
        @queue.delete(hand) # an exception came instead
      end

      def serve_queue
        while !full? && (hand = @queue.shift)
          @busy_connections[hand.fiber] = connection = @connections.pop
          hand.give(connection)
        end
      end

      # Connections of fibers that ended without returning them.
      def reclaim
        @busy_connections.keys.reject(&:alive?).each do |fiber|
          connection = @busy_connections.delete(fiber)
          discard(connection) if connection
        end
      end

      # Something interrupted the work on it.
      def spoil(fiber)
        connection = @busy_connections[fiber] or return
        @busy_connections[fiber] = nil # first: what is not closed is not lent, either
        discard(connection)
      end

      def clean?(connection)
        return false if connection.respond_to?(:finished?) && connection.finished?
        return false if connection.respond_to?(:closed?) && connection.closed?
        return false if connection.respond_to?(:check) && !connection.check

        !Tidy.left_open?(connection)
      rescue StandardError => error # Trilogy#check's, which looks at its socket and never waits
        raise if Interruption.struck?(error)

        false
      end

      def discard(connection)
        connection.close if connection.respond_to?(:close)
      rescue StandardError => error
        raise if Interruption.struck?(error) # by the caller's own deadline

        nil # it was no good any more
      end
    end
  end
end

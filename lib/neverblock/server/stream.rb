# frozen_string_literal: true

module NB
  class Server
    # What a streaming body (Rack 3: a body that answers to `call`) writes to and reads from. Small
    # writes are collected until the end of the loop's turn; a slow client makes `write` wait.
    class Stream
      # @api private
      def initialize(exchange)
        @exchange = exchange
        @closed = Thread::Queue.new
        @read_closed = false
      end

      # @param strings [Array<#to_s>]
      # @return [Integer] bytes
      # @raise [Errno::EPIPE] when the client is gone
      # @raise [IOError] after {#close_write}
      # @scheduling may wait
      def write(*strings)
        raise IOError, "not opened for writing" if closed?

        strings.sum { |string| @exchange.write(string.to_s) }
      end

      # @return [self]
      # @scheduling may wait
      def <<(string)
        write(string)
        self
      end

      # Sends what was collected without waiting for the end of the turn.
      #
      # @return [self]
      # @scheduling never waits
      def flush
        @exchange.flush unless closed?
        self
      end

      # The request body was read before the application was called: it is in env["rack.input"].
      #
      # @return [nil, String] nil or "" as IO#read answers at the end
      # @scheduling never waits
      def read(length = nil, _buffer = nil) = length ? nil : +""

      # Ends the response; {#write} raises from now on.
      #
      # @return [nil]
      # @scheduling never waits
      def close_write
        @closed.close
        nil
      end
      alias close close_write

      # @return [nil]
      # @scheduling never waits
      def close_read
        @read_closed = true
        nil
      end

      # @return [Boolean]
      # @scheduling never waits
      def closed? = @closed.closed?

      # Called by the server when the body's `call` has returned. A body may hand the stream to
      # another fiber: the response ends when that one closes it.
      #
      # @api private
      def wait
        @closed.pop
      end
    end
  end
end

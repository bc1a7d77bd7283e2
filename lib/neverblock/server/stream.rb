# frozen_string_literal: true

require "stringio"

module NB
  class Server
    # The object that a streaming body writes to and reads from (Rack 3: a body that responds to
    # `call`). Small writes are collected until the end of the loop's turn; with a slow client,
    # `write` waits. It may be used in other fibers and threads until it is closed. Its two sides
    # close like those of a socket.
    class Stream
      # @api private
      def initialize(exchange, input)
        @exchange = exchange
        @input = input
        @closed = Thread::Queue.new
        @read_closed = false
        @gone = false
      end

      # @param strings [Array<#to_s>]
      # @return [Integer] bytes
      # @raise [Errno::EPIPE] if the client is gone
      # @raise [ArgumentError] if that is more than the response's `content-length`
      # @raise [IOError] after {#close_write}
      # @scheduling may wait
      def write(*strings)
        raise Errno::EPIPE, "the client is gone" if @gone
        raise IOError, "not opened for writing" if @closed.closed?

        heed_end { strings.sum { |string| @exchange.write(string.to_s) } }
      rescue ArgumentError
        close_write # as in heed_end: nothing more can be sent
        raise
      end

      # @return [self]
      # @scheduling may wait
      def <<(string)
        write(string)
        self
      end

      # Writes lines, or what {#print} takes, in the form in which an IO does.
      #
      # @param lines [Array<#to_s>]
      # @return [nil]
      # @raise as {#write}
      # @scheduling may wait
      def puts(*lines) = put { |text| text.puts(*lines) }

      # @param texts see {#puts}
      # @return [nil]
      # @raise as {#write}
      # @scheduling may wait
      def print(*texts) = put { |text| text.print(*texts) }

      # Sends collected writes without waiting for the end of the turn.
      #
      # @return [self]
      # @scheduling never waits
      def flush
        heed_end { @exchange.flush } unless @closed.closed?
        self
      end

      # Reads from the request's body, as env["rack.input"].read does.
      #
      # @return [nil, String] nil or "" at the end
      # @raise [IOError] after {#close_read}, also if it waits just then
      # @scheduling may wait
      def read(length = nil, buffer = nil)
        raise IOError, "not opened for reading" if @read_closed

        heed_end { buffer ? @input.read(length, buffer) : @input.read(length) }
      end

      # Reads what has arrived of the request's body.
      #
      # @param length [Integer] the maximum number of bytes
      # @param buffer [String, nil] receives them
      # @return [String] at least one byte
      # @raise [EOFError] at the end of the body
      # @raise [IOError] see {#read}
      # @scheduling may wait
      def readpartial(length, buffer = nil)
        raise IOError, "not opened for reading" if @read_closed

        heed_end { buffer ? @input.readpartial(length, buffer) : @input.readpartial(length) }
      end

      # Ends both directions: the response ends, nothing is read any more, and a fiber that waits in
      # {#read} gets an IOError.
      #
      # @return [nil]
      # @scheduling may wait, in another thread than the loop's
      def close
        close_write
        close_read
      end

      # Ends the response, even while the body's `call` runs; from now on {#write} raises.
      #
      # @return [nil]
      # @scheduling may wait, in another thread than the loop's
      def close_write
        return if @closed.closed?

        @closed.close
        @exchange.end_response
      rescue IOError, Errno::EPIPE
        nil # it has ended already, or the client is gone
      end

      # Ends reading; from now on {#read} raises, and so do reads of `rack.input` that wait.
      #
      # @return [nil]
      # @scheduling may wait, in another thread than the loop's
      def close_read
        return if @read_closed

        @read_closed = true
        @exchange.close_input
      rescue IOError
        nil # the server has stopped: nobody reads
      end

      # @return [Boolean] whether both directions are closed, as of a socket
      # @scheduling never waits
      def closed? = @read_closed && @closed.closed?

      # The server calls this when the body's `call` has returned. If the body has passed the stream
      # to another fiber, the response ends when that fiber closes it.
      #
      # @api private
      def wait
        @closed.pop
      end

      private

      # Closes the stream if the client has gone. The fiber or thread that finds it may end by this
      # error without closing the stream, and the request would wait for it.
      def heed_end
        yield
      rescue Errno::EPIPE
        @gone = true
        close_write
        raise
      end

      def put(&format)
        text = StringIO.new(String.new).tap(&format)
        write(text.string)
        nil
      end
    end
  end
end

# frozen_string_literal: true

require "io/wait"
require "socket"

module NB
  # Sends whole byte strings over a stream socket, each after its length. {ForkedWorker} and
  # {ForkedChild} talk this way.
  #
  # @api private
  class Frames
    LENGTH = "Q>" # bytes that follow, an unsigned 64-bit number
    LENGTH_BYTES = 8
    private_constant :LENGTH, :LENGTH_BYTES

    # @param socket [IO] owned by this object from now on
    def initialize(socket) = @socket = socket

    # @param data [String]
    # @return [void]
    # @raise [Errno::EPIPE, Errno::ECONNRESET] if the other end is closed
    # @scheduling may wait
    def write(data)
      @socket.write([data.bytesize].pack(LENGTH), data)
    end

    # @return [String, nil] the next string; nil at the end of the stream, even in mid-string
    # @raise [Errno::ECONNRESET] if the other end left with unread data
    # @scheduling may wait
    def read
      length = @socket.read(LENGTH_BYTES)
      return unless length&.bytesize == LENGTH_BYTES

      length = length.unpack1(LENGTH)
      data = @socket.read(length)
      data if data&.bytesize == length
    end

    # @param seconds [Numeric]
    # @return [Boolean] whether anything arrives in that time, even the end of the stream
    # @scheduling may wait
    def wait(seconds) = @socket.wait_readable(seconds) ? true : false

    # @return [Boolean] whether nothing has arrived, not even the end of the stream
    # @scheduling never waits
    def quiet?
      !@socket.closed? && @socket.read_nonblock(1, exception: false) == :wait_readable
    rescue SystemCallError
      false
    end

    # Ends the stream for the other end, even if a forked process holds a copy of this one.
    #
    # @return [void]
    # @scheduling never waits
    def finish
      @socket.shutdown(Socket::SHUT_WR) unless @socket.closed?
    rescue SystemCallError
      nil # there is no other end
    end

    # @return [void]
    # @scheduling never waits
    def close = @socket.close
  end
end

# frozen_string_literal: true

require "socket"

module Bench
  # Ports for servers, and the wait until they answer.
  module Listening
    module_function

    # @return [Integer] where nobody listens
    def free_port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }

    # @param port [Integer]
    # @return [Boolean] whether somebody listens there
    def at?(port)
      TCPSocket.open("127.0.0.1", port, &:close)
      true
    rescue Errno::ECONNREFUSED
      false
    end

    # Waits until the block is true.
    #
    # @param pid [Integer] the server's process; once it has ended, there is nothing to wait for
    # @param seconds [Numeric] the longest wait
    # @param pause [Numeric] seconds between two looks
    # @yieldreturn [Boolean] whether the server answers
    # @return [void]
    # @raise [RuntimeError] saying what went wrong
    def wait(pid, seconds, pause: 0.02)
      deadline = now + seconds
      until yield
        raise "ended before it answered" if Process.wait(pid, Process::WNOHANG)
        raise "does not answer within #{seconds} s" if now > deadline

        sleep(pause)
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    private_class_method :now
  end
end

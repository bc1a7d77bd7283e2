# frozen_string_literal: true

require "socket"

module NB
  module CLI
    # Sends without copying into the kernel (MSG_ZEROCOPY, socket(7)). The kernel reads the pages of
    # the string itself, and reports through the socket's error queue when it has finished with
    # them. Over loopback, it copies after all.
    #
    # @see https://docs.kernel.org/networking/msg_zerocopy.html
    class IotestZeroCopy
      OPTION = 60 # SO_ZEROCOPY of asm-generic/socket.h
      FLAG = 0x4000000 # MSG_ZEROCOPY of linux/socket.h
      REPORT_BYTES = 512
      private_constant :OPTION, :FLAG, :REPORT_BYTES

      # @param socket [Socket]
      def initialize(socket)
        @socket = socket
        @flag = zero_copy? ? FLAG : 0
      end

      # @param bytes [String] must not be changed afterwards
      # @return [Integer] the number of bytes: all
      # @scheduling may wait
      def write(bytes)
        rest = bytes
        rest = rest.byteslice(send_some(rest)..) until rest.empty?
        bytes.bytesize
      end

      private

      def zero_copy?
        @socket.setsockopt(:SOCKET, OPTION, 1)
        true
      rescue Errno::ENOPROTOOPT, Errno::EOPNOTSUPP
        false
      end

      def send_some(bytes)
        collect
        @socket.sendmsg(bytes, @flag)
      rescue Errno::ENOBUFS
        collect
        @socket.sendmsg(bytes)
      end

      # The kernel keeps a limited number of reports (net.core.optmem_max), then returns ENOBUFS.
      # Their content does not matter here; Ruby 3.3 and later take a report for the end of the
      # stream (nil).
      def collect
        return if @flag.zero?

        nil until @socket.recvmsg_nonblock(1, Socket::MSG_ERRQUEUE, REPORT_BYTES,
          exception: false) == :wait_readable
      end
    end
  end
end

# frozen_string_literal: true

module NB
  class Server
    # What a hijacked socket is extended with if bytes had arrived that nobody has read. They are in
    # its buffer, where Ruby's `sysread` and `recv` do not look: these raise while it is not empty.
    #
    # @api private
    module EarlyBytes
      # @return [String] as IO#sysread
      def sysread(*arguments)
        super
      rescue IOError => error
        EarlyBytes.take(self, error, *arguments)
      end

      # @return [String] as BasicSocket#recv
      def recv(length, flags = 0, *buffer)
        super
      rescue IOError => error
        bytes = EarlyBytes.take(self, error, length, *buffer)
        ungetbyte(bytes) if flags.anybits?(Socket::MSG_PEEK)
        bytes
      end

      # @return [String] as BasicSocket#recv_nonblock
      def recv_nonblock(length, flags = 0, *buffer, **) # rubocop:disable Metrics/ParameterLists
        super
      rescue IOError
        recv(length, flags, *buffer)
      end

      # @param error [IOError] raised again if the buffer is empty: an end, or a time limit
      # @return [String] bytes of the buffer
      def self.take(socket, error, *arguments)
        raise error unless error.message.end_with?("for buffered IO")

        socket.read_nonblock(*arguments)
      end
    end
  end
end

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
        EarlyBytes.keep(self, bytes.dup, flags) do
          left = length - bytes.bytesize
          left.positive? && EarlyBytes.whole?(flags) ? bytes << super(left, flags).to_s : bytes
        end
      end

      # @return [String] as BasicSocket#recv_nonblock
      def recv_nonblock(length, flags = 0, *buffer, **) # rubocop:disable Metrics/ParameterLists
        super
      rescue IOError
        recv(length, flags | Socket::MSG_DONTWAIT, *buffer)
      end

      # @return [Array] as IPSocket#recvfrom and UNIXSocket#recvfrom
      def recvfrom(length, flags = 0)
        super
      rescue IOError => error
        EarlyBytes.check(error)
        [recv(length, flags), (["AF_UNIX", ""] if is_a?(UNIXSocket))]
      end

      # @return [Array] as BasicSocket#recvmsg
      def recvmsg(length = nil, flags = 0, *, **) # rubocop:disable Metrics/ParameterLists
        super
      rescue IOError => error
        EarlyBytes.check(error)
        [recv(length || WHOLE, flags), Addrinfo.new("", nil, :STREAM), 0]
      end

      # @return [Array] as BasicSocket#recvmsg_nonblock
      def recvmsg_nonblock(length = nil, flags = 0, *, **) # rubocop:disable Metrics/ParameterLists
        super
      rescue IOError
        recvmsg(length, flags | Socket::MSG_DONTWAIT)
      end

      # As much as recvmsg reads without a length.
      WHOLE = 65_536
      private_constant :WHOLE

      class << self
        # @param error [IOError] raised again if the buffer is empty: an end, or a time limit
        # @return [String] bytes of the buffer
        def take(socket, error, *arguments)
          check(error)
          socket.read_nonblock(*arguments)
        end

        # @param error [IOError] raised unless the buffer is not empty
        # @return [void]
        def check(error)
          raise error unless error.message.end_with?("for buffered IO")
        end

        # @param flags [Integer] of recv
        # @return [Boolean] whether it waits for as many bytes as it is asked for
        def whole?(flags)
          flags.anybits?(Socket::MSG_WAITALL) && flags.nobits?(Socket::MSG_DONTWAIT)
        end

        # Puts the bytes back if they were only looked at, or if the block raises.
        #
        # @return what the block returns
        def keep(socket, bytes, flags)
          back = true
          yield.tap { back = flags.anybits?(Socket::MSG_PEEK) }
        ensure
          socket.ungetbyte(bytes) if back
        end
      end
    end
  end
end

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
      rescue IOError # "for buffered IO"; at an end, the other one raises the same again
        read_nonblock(*arguments)
      end

      # @return [String] as BasicSocket#recv
      def recv(length, *rest)
        super
      rescue IOError
        read_nonblock(length, *rest.drop(1)) # without the flags
      end

      # @return [String] as BasicSocket#recv_nonblock
      def recv_nonblock(length, *rest, **options)
        super
      rescue IOError
        read_nonblock(length, *rest.drop(1), **options)
      end
    end
  end
end

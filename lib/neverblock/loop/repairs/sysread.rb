# frozen_string_literal: true

# IO#sysread and IO#syswrite. Ruby calls io_read or io_write once, and raises Errno::EAGAIN where
# blocking Ruby waits; the hook cannot tell these calls from read_nonblock. Only IO#timeout ends the
# wait. And of a file in blocking mode, such as the standard output, syswrite writes all, where the
# hook writes what has room.
module NB
  module Repairs
    class << self
      # @return what the block returns
      # @scheduling may wait
      # @api private
      def sysmove(io, wait, &block)
        until (result = attempt(&block))
          one_way = wait == :wait_writable ? Native.write_io(io) : io # a child's IO is two
          raise IO::TimeoutError, "Blocking operation timed out!" unless one_way.public_send(wait)
        end
        result
      end

      # @return [Integer] bytes written: those before an error, which strikes at the next call
      # @scheduling may wait
      # @api private
      def syswrite_all(io, original, bytes)
        written = sysmove(io, :wait_writable) { io.__send__(original, bytes) }
        while written < bytes.bytesize && Native.blocking?(io)
          rest = bytes.byteslice(written..)
          written += sysmove(io, :wait_writable) { io.__send__(original, rest) }
        end
        written
      rescue SystemCallError
        written || raise
      end

      private

      # nil: it has to wait
      def attempt
        yield
      rescue Errno::EAGAIN
        raise unless loop_here
      end
    end

    repair(IO, :sysread) do |original|
      proc do |*arguments|
        Repairs.sysmove(self, :wait_readable) { __send__(original, *arguments) }
      end
    end

    repair(IO, :syswrite) do |original|
      proc do |*arguments|
        next __send__(original, *arguments) unless Repairs.loop_here && arguments.one?

        Repairs.syswrite_all(self, original, "#{arguments.first}") # rubocop:disable Style/RedundantInterpolation -- not to_s: it may return anything
      end
    end
  end
end

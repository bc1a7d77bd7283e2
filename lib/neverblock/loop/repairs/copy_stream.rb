# frozen_string_literal: true

# IO.copy_stream with a terminal, a FIFO or another IO in blocking mode, such as the standard input
# and output of most programs. No Ruby (3.1 to 3.4) asks the scheduler: it reads and writes without
# the GVL, and the whole thread stops. Here one end is hidden behind an object, so that Ruby calls
# the methods of both.
module NB
  module Repairs
    # Reads as copy_stream does.
    class Inlet
      def initialize(io) = @io = io

      # @return [String]
      # @raise [EOFError, SystemCallError]
      # @scheduling may wait
      def readpartial(size, buffer)
        @io.readpartial(size, buffer)
      rescue SystemCallError => error
        raise error.class.new("read"), cause: nil
      end
    end

    # Writes as copy_stream does: at once, behind what is in the buffer, and without conversion.
    class Outlet
      def initialize(io) = @io = io.flush

      # @return [Integer] bytes written: all of them
      # @raise [SystemCallError]
      # @scheduling may wait
      def write(bytes)
        written = 0
        until written == bytes.bytesize
          written += @io.syswrite(written.zero? ? bytes : bytes.byteslice(written..))
        end
        written
      rescue SystemCallError => error
        raise error.class.new("write"), cause: nil
      end
    end
    private_constant :Inlet, :Outlet

    class << self
      # @return [Array(Object, Object)] the two, or one of them and an object in front of the other
      # @api private
      def copy_ends(source, target, offset)
        ends = [source, target]
        return ends unless ends.all? { |one| copied_by_fd?(one) }

        source, target = ends.map { |one| IO.try_convert(one) || one } # a Tempfile is no IO
        return ends unless may_stop?(source, target)
        return [source, Outlet.new(target)] if target.is_a?(IO)

        offset ? ends : [Inlet.new(source), target] # Ruby raises ESPIPE for an offset
      end

      private

      # Whether Ruby takes the fd and not methods, if it is the same for the other end.
      def copied_by_fd?(one) = one.is_a?(IO) || one.is_a?(String) || one.respond_to?(:to_path)

      def may_stop?(source, target)
        stops = [source, target].zip([false, true]).map do |one, writing|
          one.is_a?(IO) && Native.may_stop?(one, writing)
        end
        !stops.include?(nil) && stops.any? # Ruby raises IOError before it moves anything
      end
    end

    repair(IO.singleton_class, :copy_stream) do |original|
      proc do |*arguments|
        copies = Repairs.loop_here && arguments.size.between?(2, 4)
        next __send__(original, *arguments) unless copies

        source, target, *rest = arguments
        __send__(original, *Repairs.copy_ends(source, target, rest[1]), *rest)
      end
    end
  end
end

# frozen_string_literal: true

require "io/nonblock"
require "io/wait"

module NB
  module CLI
    # Moves bytes from a socket to a file inside the kernel, through a pipe, by splice(2): none of
    # them becomes a String. Linux only. Ruby has no method for it, so this calls libc by Fiddle.
    #
    # @example
    #   NB::CLI::RubyhttpSplice.new(socket, file, timeout: 60).move(content_length)
    class RubyhttpSplice
      # As many bytes as an unprivileged process may ask a pipe to hold on most machines.
      PIPE = 262_144
      # From fcntl.h.
      F_SETPIPE_SZ = 1031
      MOVE_NONBLOCK = 1 | 2
      private_constant :PIPE, :F_SETPIPE_SZ, :MOVE_NONBLOCK

      class << self
        # @return [String, nil] why it is not available here
        # @scheduling never waits
        def missing
          require "fiddle"
          "splice(2) is only in Linux" unless RUBY_PLATFORM.include?("linux") && function
        rescue LoadError
          "gem fiddle is not installed"
        rescue Fiddle::DLError
          "this libc has no splice"
        end

        # @return [Fiddle::Function]
        # @scheduling never waits
        def function
          @function ||= Fiddle::Function.new(
            Fiddle::Handle::DEFAULT["splice"],
            [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP,
             Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT], Fiddle::TYPE_LONG
          )
        end
      end

      # @param source [Socket]
      # @param sink [IO] a file or a device
      # @param timeout [Numeric, nil] seconds to wait for the next bytes
      def initialize(source, sink, timeout: nil)
        reason = RubyhttpSplice.missing and raise Failure, reason
        @source = source
        @sink = sink
        @timeout = timeout
      end

      # @param length [Integer] bytes
      # @return [Integer] length
      # @raise [EOFError] if the source ends before
      # @raise [Net::ReadTimeout] if no byte comes in time
      # @scheduling may wait
      def move(length)
        @source.nonblock = true # otherwise splice would wait for it, and stop the loop
        IO.pipe do |reader, writer|
          writer.fcntl(F_SETPIPE_SZ, PIPE)
          rest = length
          rest -= drain(reader, fill(writer, rest)) while rest.positive?
        end
        length
      end

      private

      def fill(writer, most)
        loop do
          count = splice(@source, writer, [most, PIPE].min)
          raise EOFError, "end of file reached" if count&.zero?
          return count if count

          @source.wait_readable(@timeout) or raise Net::ReadTimeout, @source
        end
      end

      # Nothing has to wait for a file.
      def drain(reader, count)
        rest = count
        rest -= splice(reader, @sink, rest) || 0 while rest.positive?
        count
      end

      # @return [Integer, nil] bytes; nil: there are none yet
      def splice(from, to, most)
        count = RubyhttpSplice.function.call(from.fileno, nil, to.fileno, nil, most, MOVE_NONBLOCK)
        return count unless count.negative?

        error = SystemCallError.new("splice", Fiddle.last_error)
        error.is_a?(Errno::EAGAIN) || error.is_a?(Errno::EINTR) ? nil : raise(error)
      end
    end
  end
end

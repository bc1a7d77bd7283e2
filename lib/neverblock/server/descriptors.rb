# frozen_string_literal: true

require "fcntl"

module NB
  class Server
    # The process's descriptors: how many it may open, and how many the kernel has room for.
    #
    # @api private
    module Descriptors
      # For as many there is room from the start: 8 bytes each.
      ROOM = 16_384

      module_function

      # The soft limit is often 1,024 where the hard one is a million. The banner says if both are
      # too low.
      # @return [void]
      def raise_limit
        soft, hard = Process.getrlimit(:NOFILE)
        Process.setrlimit(:NOFILE, [hard, 1_048_576].min, hard) if soft < hard
      rescue SystemCallError
        nil
      end

      # Linux makes room for 64 descriptors and doubles it when one more is opened. In a process
      # with threads the opener stands still for that, 8 to 20 ms: here, before it serves, and not
      # in its loop. A forked child gets only as much room as its parent's descriptors need.
      # @return [void]
      def make_room
        last = [Process.getrlimit(:NOFILE).first, ROOM].min - 1
        File.open(File::NULL) { |file| IO.for_fd(file.fcntl(Fcntl::F_DUPFD, last)).close }
      rescue SystemCallError
        nil # that one is taken, or memory is short: it grows as it needs to
      end
    end
  end
end

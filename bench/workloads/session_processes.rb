# frozen_string_literal: true

require_relative "../frame/command"
require_relative "../frame/kernel_file"

module Bench
  module Workloads
    # What the kernel says of the processes of a session. The class has @pid, the session's first.
    module SessionProcesses
      # In front of a command: it ends when we end, and has a session of its own: where others
      # compute too, Linux then gives as much time to one thread as to fifty (sched_autogroup).
      APART = %w[setpriv --pdeathsig TERM setsid].freeze

      # @return [Float] CPU seconds of all of them, user and system
      def cpu
        tasks = pids.flat_map { |pid| Dir["/proc/#{pid}/task/*/schedstat"] }
        tasks.sum { |path| KernelFile.read(path).to_i } / 1e9
      end

      # @return [Integer] proportional set size of all of them, in KiB
      def memory_kb
        pids.sum { |pid| KernelFile.read("/proc/#{pid}/smaps_rollup")[/^Pss:\s+(\d+)/, 1].to_i }
      end

      # @return [Array<Integer>]
      def pids
        Dir["/proc/[0-9]*/stat"].filter_map do |path|
          fields = KernelFile.read(path).rpartition(")").last.split
          path[/\d+/].to_i if fields[3].to_i == @pid && fields[0] != "Z"
        end
      end

      # Kills all of them. A worker may have a process group of its own, as Itsi's do.
      #
      # @return [void]
      def end_session
        Command.end_group(@pid)
        until (rest = pids).empty?
          rest.each { |pid| kill(pid) }
          sleep 0.002 # until the kernel has ended them
        end
      end

      private

      def kill(pid)
        Process.kill(:KILL, pid)
      rescue Errno::ESRCH
        nil # it has ended by itself
      end
    end
  end
end

# frozen_string_literal: true

module Bench
  # Runs other programs to their end, and ends them.
  module Command
    # As Open3.capture2e, without its thread: that reports an error of its own when Ctrl-C ends us.
    #
    # @param environment [Hash{String=>String}] may be left out
    # @param words [Array<String>] program and arguments
    # @return [Array(String, Process::Status)] what it wrote to either output, and how it ended
    # @raise [Errno::ENOENT] when there is no such program
    def self.capture(*words, **options)
      output = IO.popen([*words, { err: %i[child out], **options }], &:read)
      [output, Process.last_status]
    end

    # Kills a child of ours and its whole process group, and waits for the child.
    #
    # @param pid [Integer] of the group's first process
    # @return [void]
    def self.end_group(pid)
      Process.kill(:KILL, -pid)
      Process.wait(pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    end
  end
end

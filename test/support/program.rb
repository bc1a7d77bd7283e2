# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "interrupts"

# `nb` as a user runs it: a process of its own.
module Program
  ROOT = File.expand_path("../..", __dir__)
  RUBY = [RbConfig.ruby].freeze
  NB = [*RUBY, File.join(ROOT, "exe", "nb")].freeze
  # For programs that must say nothing on stderr: where a thread that holds the GVL gets no core for
  # 100 ms, the watchdog says so.
  PATIENT = { "NB_WATCHDOG" => "1000" }.freeze

  module_function

  # Runs `nb` with these arguments to its end.
  # @return [Array(String, String, Process::Status)] stdout, stderr, status
  def nb(*arguments, stdin: "", **options)
    Open3.capture3(*NB, *arguments, stdin_data: stdin, **options)
  end

  # Runs `nb delayd` on a free port beside the block, then ends it by the signal.
  # @yieldparam port [Integer]
  # @return [Array(String, Process::Status, Object)] what it wrote to stderr, how it ended, and the
  #   block's value
  def delayd(*arguments, signal: :TERM)
    Open3.popen3(*NB, "delayd", "--port", "0", *arguments) do |*pipes, process|
      _, stdout, stderr = pipes
      first = stdout.gets or raise "nb delayd did not start: #{stderr.read}"
      value = yield(Integer(first[/:(\d+)\//, 1]))
      stop(process, signal)
      raise "nb delayd does not end by #{signal}" if process.alive?

      return [stderr.read, process.value, value]
    ensure
      stop(process, :KILL) if process.alive?
    end
  end

  # Waits for its end a while.
  def stop(process, signal)
    Process.kill(signal, process.pid)
    process.join(60)
  rescue Errno::ESRCH
    nil # it has ended already
  end
end

# frozen_string_literal: true

require_relative "helper"
require_relative "../../bench/workloads/session_processes"

# A server's workers belong to it, whatever process group they are in: they are counted and ended.
class BenchSessionProcessesTest < Minitest::Test
  # A process in a session of its own, whose child has a process group of its own, and computes.
  class Server
    include Bench::Workloads::SessionProcesses

    PROGRAM = <<~RUBY
      fork do
        Process.setpgrp
        sum = 0
        3_000_000.times { |number| sum += number }
        puts Process.pid
        $stdout.flush
        sleep
      end
      sleep
    RUBY

    def initialize
      output, input = IO.pipe
      @pid = Process.spawn(*APART, RbConfig.ruby, "-e", PROGRAM, out: input)
      input.close
      @worker = Integer(output.gets)
    end

    attr_reader :pid, :worker
  end

  def setup = @server = Server.new

  def teardown
    [-@server.pid, @server.worker].each do |pid|
      Process.kill(:KILL, pid)
    rescue Errno::ESRCH
      nil
    end
  end

  def test_all_processes_are_counted
    assert_equal [@server.pid, @server.worker].sort, @server.pids.sort
    alone = File.read("/proc/#{@server.pid}/schedstat").to_i / 1e9

    assert_operator @server.cpu, :>, alone
  end

  def test_none_is_left
    @server.end_session

    assert_empty @server.pids
    state = File.exist?("/proc/#{@server.worker}") && File.read("/proc/#{@server.worker}/stat")
    assert(!state || state.rpartition(")").last.start_with?(" Z"), state)
  end
end

# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "rbconfig"
require_relative "subprocess"
require_relative "ticker"
require_relative "timing"

# The ticker names what blocks, on a busy machine too, and blames nobody who is kept from a CPU.
class TickerTest < Minitest::Test
  # Beside two busy loops on the CPU that it has to share with them.
  BESIDE_BUSY_LOOPS = <<~RUBY.freeze
    require "neverblock"
    require "#{__dir__}/ticker"
    busy = Array.new(2) { Process.spawn("#{RbConfig.ruby}", "--disable-gems", "-e", "loop { }") }
    compute = lambda do |seconds|
      now = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) }
      start = now.call
      nil while now.call - start < seconds
    end
    begin
      sleep 0.2
      lateness = Ticker.lateness { %s }
      looks = Ticker.around { compute.call(0.1) }
      puts lateness, looks.queued
    ensure
      busy.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
    end
  RUBY

  # In many short sleeps: who is kept from a CPU before one begins waits less in it.
  STALL = "Fiber.new(blocking: true) { 60.times { sleep 0.005 } }.resume"

  def test_a_stall_is_named
    late = Ticker.lateness { Fiber.new(blocking: true) { 12.times { sleep 0.005 } }.resume }

    assert_operator late, :>=, 0.024
  end

  def test_a_stall_beside_busy_loops_is_named
    late, = beside_busy_loops("compute.call(0.02); #{STALL}")

    assert_operator late, :>=, 0.024
  end

  def test_who_is_kept_from_a_cpu_is_not_blamed
    late, queued = beside_busy_loops("20.times { compute.call(0.01); sleep 0 }")

    assert_operator queued, :>, 0.05, "it had a CPU to itself"
    assert_in_time late, 0.010
  end

  # Stopped, with what watches the machine, as a machine that stands still stops them.
  MACHINE = <<~RUBY.freeze
    require "neverblock"
    require "#{__dir__}/ticker"
    ENV.delete(Machine::FOLDER)
    Machine.watch do
      sleep 0.01 until Dir["\#{ENV[Machine::FOLDER]}/*"].all? { |file| File.size?(file) }
      sleep 0.05
      all = [$$, *File.read("/proc/self/task/\#{$$}/children").split].join(" ")
      Process.spawn("sleep 0.1; kill -STOP \#{all}; sleep 0.3; kill -CONT \#{all}")
      puts Ticker.lateness { sleep 1 }
    end
  RUBY

  def test_a_machine_that_stands_still_is_not_blamed_on_the_loop
    result = Subprocess.ruby(MACHINE, loaded: false)

    assert_in_time Float(result.out), 0.1
  end

  def test_the_machine_stood_still_as_long_as_the_cpu_that_did_so_longest
    Dir.mktmpdir do |folder|
      File.write("#{folder}/cpu0", "1.0 1.5\n2.0 2.1\n")
      File.write("#{folder}/cpu1", "1.0 1.2\n1.9 2.5\n")
      ENV[Machine::FOLDER], before = folder, ENV.fetch(Machine::FOLDER, nil)
      asked = [[0, 0.9], [1.1, 2.05], [1.9, 3], [2.05, 2.06]].map { |ends| Machine.stalled(*ends) }

      assert_equal [0.0, 0.45, 0.6, 0.01], asked.map { |seconds| seconds.round(9) }
    ensure
      ENV[Machine::FOLDER] = before
    end
  end

  private

  def beside_busy_loops(body)
    cpu = File.read("/proc/self/status")[/^Cpus_allowed_list:\s+(\d+)/, 1]
    result = Subprocess.run({}, ["taskset", "-c", cpu, RbConfig.ruby, "-I", Subprocess::LIB, "-e",
                                 format(BESIDE_BUSY_LOOPS, body)], 30)
    result.out.lines.map { |line| Float(line) }
  end
end

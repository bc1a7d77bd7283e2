# frozen_string_literal: true

require_relative "helper"
require "fileutils"

# What others compute while a sample is taken, told from a /proc of our own making, and once from
# the real one.
class BenchNeighboursTest < Minitest::Test
  HERTZ = Etc.sysconf(Etc::SC_CLK_TCK)

  def setup = @proc = Dir.mktmpdir
  def teardown = FileUtils.rm_rf(@proc)

  # As proc(5) has it: pid (name) state ppid … flags … utime stime cutime cstime … starttime
  def process(pid, parent:, ticks:, children: 0, flags: 0, start: pid, state: "S")
    FileUtils.mkdir_p(File.join(@proc, pid.to_s))
    fields = [state, parent, 0, 0, 0, 0, flags, 0, 0, 0, 0, ticks, 0, children, 0, 0, 0, 1, 0,
              start]
    File.write(File.join(@proc, pid.to_s, "stat"), "#{pid} (a (b) c) #{fields.join(" ")}\n")
  end

  def ended(pid) = FileUtils.rm_rf(File.join(@proc, pid.to_s))
  def stolen(ticks) = File.write(File.join(@proc, "stat"), "cpu  1 1 1 1 1 1 1 #{ticks} 0 0\n")

  # @return [Float] CPU seconds of others while the block changed the world, during one second
  def measured
    process(1, parent: 0, ticks: 10)
    process(50, parent: 1, ticks: 100)
    process(51, parent: 50, ticks: 100)
    process(7, parent: 1, ticks: 200)
    stolen(0)
    times = [1.0, 2.0]
    neighbours = Bench::Neighbours.new(proc: @proc, pid: 50)
    neighbours.define_singleton_method(:now) { times.shift }
    value, share = neighbours.watch do
      yield
      :value
    end
    assert_equal :value, value
    share
  end

  def test_what_we_and_our_descendants_use_is_not_counted
    assert_in_delta 0, measured { process(51, parent: 50, ticks: 100 + HERTZ) }, 0.001
  end

  def test_what_another_process_uses_is_counted
    assert_in_delta 1.0, measured { process(7, parent: 1, ticks: 200 + HERTZ) }, 0.001
  end

  def test_what_the_hypervisor_takes_is_counted
    assert_in_delta 0.5, measured { stolen(HERTZ / 2) }, 0.001
  end

  def test_threads_of_the_kernel_are_nobody
    assert_in_delta 0, measured { process(9, parent: 2, ticks: HERTZ, flags: 0x00200000) }, 0.001
  end

  # Its parent is told the whole of its time, of which we saw the first part before.
  def test_of_a_child_that_ended_only_the_new_time_is_counted
    process(8, parent: 7, ticks: 5 * HERTZ)
    process(88, parent: 8, ticks: 5 * HERTZ)
    one_more_second = measured do
      ended(88)
      ended(8)
      process(7, parent: 1, ticks: 200, children: 11 * HERTZ)
    end

    assert_in_delta 1.0, one_more_second, 0.001
  end

  # A master that is killed leaves its workers to init, with all their time.
  def test_what_an_orphan_of_ours_leaves_to_init_is_not_counted
    share = measured do
      ended(51)
      process(1, parent: 0, ticks: 10, children: 5 * HERTZ)
      process(52, parent: 1, ticks: HERTZ, state: "Z") # init has not reaped it yet
    end

    assert_in_delta 0, share, 0.001
  end

  # Seen from a process that has no descendants, this one is another. In seconds of CPU: on a busy
  # machine the share of any one is small, and what the real others use comes on top.
  def test_the_real_machine_tells_of_a_process_that_computes
    assert_operator used_by_others(2**30) { compute(0.4) }, :>, 0.2
  end

  # @param pid [Integer] whose descendants are not the others
  # @return [Float] seconds of CPU
  def used_by_others(pid, &block)
    neighbours = Bench::Neighbours.new(pid: pid)
    times = []
    neighbours.define_singleton_method(:now) { super().tap { |time| times << time } }
    _, share = neighbours.watch(&block)
    share * (times.last - times.first)
  end

  def compute(cpu)
    until_then = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + cpu
    nil while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < until_then
  end
end

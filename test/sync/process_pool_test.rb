# frozen_string_literal: true

require "minitest/mock"
require_relative "support"

class ProcessPoolTest < Minitest::Test
  include SyncSupport

  # Cannot be sent: its initialize is not the reason, the proc in it is.
  class Unsendable < StandardError
    def initialize(message)
      super
      @hook = -> {}
    end
  end

  def processes(size = 2, work = ->(x) { x * 2 })
    pool = NB::ProcessPool.new(size: size, &work)
    yield pool
  ensure
    pool.close
    assert_empty pool.pids
  end

  # The most milliseconds between two turns of a fiber that only naps, while the block runs.
  def longest_stall
    longest = 0.0
    ticker = NB::Task.new do
      loop do
        longest = [longest, elapsed { sleep(0.002) }].max
      end
    end
    yield
    ticker.cancel.wait
    longest
  end

  # Only when its last thread is gone is its socket closed.
  def dead?(pid)
    Dir.children("/proc/#{pid}/task").size == 1 &&
      File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] == "Z"
  end

  everywhere "applies_the_block_in_other_processes" do
    processes do |pool|
      values = {}
      concurrently(6) { |i| values[i] = pool.call(i) }
      assert_equal (0..5).to_h { |i| [i, i * 2] }, values
      assert_includes 1..2, pool.pids.size
      refute_includes pool.pids, Process.pid
      assert_equal pool.pids.size, pool.stats[:idle]
    end
  end

  everywhere "a_process_knows_nothing_of_the_fiber_that_needed_it_first" do
    skip "Ruby has no fiber storage" unless Fiber.respond_to?(:[])
    processes(1, -> { [Fiber[:mine], Thread.current[:mine]] }) do |pool|
      Fiber[:mine] = Thread.current[:mine] = 1
      assert_equal [[nil, nil]] * 2, Array.new(2) { pool.call }
    ensure
      Fiber[:mine] = Thread.current[:mine] = nil
    end
  end

  everywhere "forks_only_what_it_needs_and_keeps_it" do
    processes(3, -> { Process.pid }) do |pool|
      assert_empty pool.pids
      assert_equal 1, Array.new(4) { pool.call }.uniq.size
      assert_equal 1, pool.pids.size
    end
  end

  everywhere "arguments_and_values_of_any_size" do
    processes(1, ->(text, more) { text + more[:text] }) do |pool|
      big = "x" * (5 << 20)
      assert_equal "#{big}y", pool.call(big, text: "y")
    end
  end

  everywhere "what_the_block_raises_is_raised_here_with_both_backtraces" do
    work = ->(x) { raise KeyError.new("no #{x}", key: x, receiver: {}) }
    processes(1, work) do |pool|
      error = assert_raises(KeyError) { pool.call(:color) }
      assert_equal "no color", error.message
      assert_equal :color, error.key
      assert(error.backtrace.any? { |line| line.include?("serve") }, "of the child")
      assert(error.backtrace.any? { |line| line.include?("process_pool_test") }, "of the parent")
      pid = pool.pids
      assert_raises(KeyError) { pool.call(:shape) }
      assert_equal pid, pool.pids, "an error of the block does not cost the process"
    end
  end

  everywhere "what_cannot_be_sent_is_a_clear_error" do
    work = lambda do |what|
      case what
      when :value then -> {}
      when :error then raise Unsendable, "with a proc"
      when :class then Class.new(StandardError).new("of a class without a name")
      else what
      end
    end
    processes(1, work) do |pool|
      error = assert_raises(NB::ProcessError) { pool.call(:value) }
      assert_match(/the value, of class Proc, cannot be sent.*Proc/, error.message)
      error = assert_raises(NB::ProcessError) { pool.call(:error) }
      assert_match(/Unsendable \(with a proc\), which cannot be sent/, error.message)
      assert_raises(NB::ProcessError) { pool.call(:class) }
      pid = pool.pids
      error = assert_raises(TypeError) { pool.call(-> {}) }
      assert_match(/arguments cannot be sent.*Proc/, error.message)
      assert_equal 5, pool.call(5)
      assert_equal pid, pool.pids
    end
  end

  everywhere "what_only_one_side_knows_is_a_clear_error" do
    work = lambda do |what|
      return what.class.name if what

      Object.const_set(:OnlyInTheChild, Struct.new(:x)).new(1)
    end
    processes(1, work) do |pool|
      assert_match(/cannot be read here.*OnlyInTheChild/,
                   assert_raises(NB::ProcessError) { pool.call(nil) }.message)
      begin
        Object.const_set(:OnlyInTheParent, Struct.new(:x))
        assert_match(/cannot be read in process.*OnlyInTheParent/,
                     assert_raises(NB::ProcessError) { pool.call(OnlyInTheParent.new(1)) }.message)
        pool.reload
        assert_equal "OnlyInTheParent", pool.call(OnlyInTheParent.new(1))
      ensure
        Object.send(:remove_const, :OnlyInTheParent)
      end
    end
  end

  everywhere "a_process_that_dies_is_a_clear_error_and_replaced" do
    work = lambda do |how|
      case how
      when :kill then Process.kill(:KILL, Process.pid)
      when :exit then exit(3)
      when :exit! then exit!(4)
      when :end_thread then Thread.current.kill
      end
      Process.pid
    end
    processes(1, work) do |pool|
      { kill: /process \d+ was killed by SIGKILL before it answered/,
        exit: /exited with status 3/, exit!: /exited with status 4/,
        end_thread: /exited with status 0/ }.each do |how, message|
        before = pool.call(:live)
        assert_match(message, assert_raises(NB::ProcessError) { pool.call(how) }.message)
        refute_equal before, pool.call(:live)
        assert_equal 1, pool.pids.size
      end
    end
  end

  # What is raised on its last steps must not come out in the code of the parent.
  everywhere "a_child_never_goes_on_as_its_parent" do
    parent = Process.pid
    reader, writer = IO.pipe
    works = [-> { $stdout.define_singleton_method(:flush) { raise KeyError } },
             -> { Thread.current.kill }]
    works.each do |work|
      assert_raises(NB::ProcessError) { NB.in_process(&work) }
    ensure
      writer.write("a child is here") && Process.exit!(1) if Process.pid != parent
    end
    writer.close
    assert_equal "", reader.read
    reader.close
  end

  # A child that was forked in between would hold a copy of the socket that is to end.
  def test_the_death_of_one_is_seen_at_once_when_all_were_forked_at_once
    5.times do
      processes(6, ->(nap) { sleep(nap) }) do |pool|
        callers = Array.new(6) do
          Thread.new { assert_raises(NB::ProcessError) { pool.call(60) } }
        end
        assert(settled { pool.pids.size == 6 })
        pool.pids.each_with_index do |pid, killed|
          Process.kill(:KILL, pid)
          assert(settled { callers.count(&:alive?) == 5 - killed }, "nobody noticed")
        end
      end
    end
  end

  everywhere "a_process_that_died_while_idle_is_replaced_unnoticed" do
    processes(1, -> { Process.pid }) do |pool|
      before = pool.call
      Process.kill(:KILL, before)
      assert(settled { dead?(before) })
      refute_equal before, pool.call
      assert_equal 1, pool.pids.size
    end
  end

  scheduled "the_loop_goes_on_meanwhile" do
    spin = lambda do
      stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.15
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
    end
    processes(1, spin) do |pool|
      pool.call
      # A busy host stops the whole machine now and then; a blocked loop stands still every time.
      stalls = Enumerator.produce { longest_stall { pool.call } }
      assert stalls.first(8).any? { |stall| stall < 0.1 }, "the loop stood still"
    end
  end

  scheduled "a_call_that_is_cancelled_kills_its_process" do
    processes(1, ->(nap) { sleep(nap) && Process.pid }) do |pool|
      before = pool.call(0)
      task = NB::Task.new { pool.call(60) }
      sleep(0.005)
      task.cancel.wait
      assert_raises(Errno::ESRCH) { Process.kill(0, before) }
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { pool.call(60) } }
      refute_equal before, pool.call(0), "the answer of the one before"
    end
  end

  # Between its making and its noting. Children that are left fail in teardown.
  everywhere "an_interrupt_as_a_process_has_been_made_leaves_none", others: false do
    make = NB::ForkedWorker.method(:new)
    strike = lambda do |&work|
      make.call(&work).tap do |worker|
        worker.define_singleton_method(:start) do
          super()
          raise NB::Cancelled, "struck"
        end
      end
    end
    processes(1, -> { sleep }) do |pool|
      NB::ForkedWorker.stub(:new, strike) do
        assert_raises(NB::Cancelled) { NB.in_process { sleep } }
        assert_raises(NB::Cancelled) { pool.call }
      end
    end
  end

  # Process.fork takes longer than the time limit of the test before, on a busy machine. Children
  # and fds that are left fail in teardown.
  everywhere "an_interrupt_while_a_process_is_made_leaves_none", others: false do
    fork = Process.method(:fork)
    strike = lambda do
      pid = fork.call
      Thread.new(Thread.current) { |maker| maker.raise(NB::Cancelled, "struck") }.join if pid
      pid
    end
    Process.stub(:fork, strike) do
      assert_raises(NB::Cancelled) { NB.in_process { sleep } }
    end
  end

  everywhere "waits_for_a_process_as_long_as_told" do
    pool = NB::ProcessPool.new(size: 1, timeout: 0.01) { sleep(0.5) }
    refused = 0
    concurrently(2) do
      pool.call
    rescue NB::PoolTimeoutError
      refused += 1
    end
    assert_equal 1, refused
    pool.close
    assert_raises(NB::ClosedError) { pool.call }
  end

  everywhere "output_of_the_child_comes_out_once_and_at_once" do
    reader, writer = IO.pipe
    out = $stdout.dup
    $stdout.reopen(writer)
    print "parent "
    processes(1, -> { print "child " }) { |pool| 2.times { pool.call } }
    $stdout.flush
  ensure
    $stdout.reopen(out)
    [writer, out].each(&:close)
    assert_equal "parent child child ", reader.read
    reader.close
  end

  everywhere "dollar_question_mark_is_left_alone" do
    system("exit 7")
    processes(1) { |pool| pool.call(1) }
    assert_equal 7, $?.exitstatus
  end

  everywhere "in_process_runs_any_block_in_a_child_of_its_own" do
    secret = Object.new
    def secret.marshal_dump = raise(TypeError, "stays here")
    parent = Process.pid
    value = NB::ForkedWorker.run { [secret.class.name, Process.pid == parent, Process.ppid] }
    assert_equal ["Object", false, parent], value
    assert_raises(KeyError) { NB::ForkedWorker.run { raise KeyError } }
    error = assert_raises(NB::ProcessError) { NB::ForkedWorker.run { exit!(9) } }
    assert_match(/status 9/, error.message)
    assert_raises(ArgumentError) { NB::ForkedWorker.run }
  end

  # The first so many children stand still before they get to any code of ours.
  def stillborn(count, seconds: 1)
    folder = Dir.mktmpdir
    make, usual = NB::ForkedChild.method(:new), NB::ForkedWorker.const_get(:BIRTH_SECONDS)
    set_patience(seconds)
    stop = lambda do |*arguments, &work|
      if Dir.children(folder).size < count
        File.write("#{folder}/#{Process.pid}", "")
        Process.kill(:STOP, Process.pid)
      end
      make.call(*arguments, &work)
    end
    NB::ForkedChild.stub(:new, stop) { yield folder }
  ensure
    set_patience(usual)
    FileUtils.rm_rf(folder)
  end

  def set_patience(seconds)
    NB::ForkedWorker.send(:remove_const, :BIRTH_SECONDS)
    NB::ForkedWorker.const_set(:BIRTH_SECONDS, seconds)
    NB::ForkedWorker.send(:private_constant, :BIRTH_SECONDS)
  end

  everywhere "a_child_that_does_not_begin_is_replaced" do
    stillborn(1) do |folder|
      _, err = capture_io do
        processes(1) { |pool| assert_equal [2, 4], [pool.call(1), pool.call(2)] }
      end
      pid = Dir.children(folder).first
      assert_equal "process #{pid} did not begin within 1 s (see ruby/ruby#12981): making " \
                   "another one\n", err
      refute_path_exists "/proc/#{pid}"
    end
  end

  everywhere "several_that_do_not_begin_are_an_error" do
    stillborn(9) do |folder|
      error = nil
      capture_io { error = assert_raises(NB::ProcessError) { NB::ForkedWorker.run { 1 } } }
      assert_match(/\Aprocess \d+ did not begin within 1 s/, error.message)
      pids = Dir.children(folder)
      assert_equal 3, pids.size
      pids.each { |pid| refute_path_exists "/proc/#{pid}" }
    end
  end

  everywhere "a_child_that_ended_before_its_first_call_is_replaced" do
    worker = NB::ForkedWorker.new { 1 }.tap(&:start)
    assert_predicate worker, :alive?
    Process.kill(:KILL, worker.pid)
    Timeout.timeout(60) { sleep 0.001 while worker.alive? }
    worker.close
    worker = NB::ForkedWorker.new { 1 }.tap(&:start)
    sleep 0.2 # by then it has said that it has begun
    assert_predicate worker, :alive?
    assert_equal 1, worker.call([])
    worker.close
  end

  everywhere "the_child_has_no_scheduler_and_may_have_its_own" do
    assert_equal [nil, 3], NB::ForkedWorker.run { [Fiber.scheduler, Thread.new { 3 }.value] }
    runner = SyncSupport::SCHEDULERS.values.first
    assert_equal 4, (NB::ForkedWorker.run do
      value = nil
      runner.call(-> { (sleep(0.001) && value = 4) })
      value
    end)
  end

  everywhere "a_child_may_have_children" do
    pids = NB::ForkedWorker.run { [Process.pid, NB::ForkedWorker.run { Process.ppid }] }
    assert_equal 1, pids.uniq.size
  end

  # The ensure of a fiber that waits belongs to the parent alone.
  scheduled "no_other_code_of_the_parent_runs_in_the_child" do
    file = "/tmp/neverblock-sync-#{Process.pid}-#{object_id}"
    task = NB::Task.new do
      sleep
    ensure
      File.write(file, "#{Process.pid}\n", mode: "a")
    end
    3.times { NB::ForkedWorker.run { 1 } }
    refute_path_exists file
    task.cancel.wait
    assert_equal "#{Process.pid}\n", File.read(file)
  ensure
    File.delete(file) if File.exist?(file)
  end

  scheduled "cancels_at_any_moment_leave_no_process" do
    random = Random.new(Minitest.seed)
    processes(3, ->(nap) { sleep(nap) }) do |pool|
      tasks = Array.new(15) do
        NB::Task.new do
          8.times { random.rand < 0.8 ? pool.call(random.rand * 0.002) : NB::ForkedWorker.run { 1 } }
        end
      end
      tasks.shuffle(random: random).each do |task|
        sleep(random.rand * 0.004)
        task.cancel
      end
      tasks.each(&:wait)
      assert_equal 0, pool.stats[:in_use]
      Array.new(3) { NB::Task.new { pool.call(0) } }.each(&:value)
      assert_operator pool.pids.size, :<=, 3
    end
    assert settled { (Process.wait(-1, Process::WNOHANG) && false) rescue true }
  end

  # The first ends the process, the second comes before the pool has been told.
  def test_a_process_that_was_killed_under_two_interrupts_gets_no_further_call
    in_thread do
      pool = NB::ProcessPool.new(size: 1) { |value| value == :sleep ? sleep : value }
      20.times { kill_under_two_interrupts(pool) && assert_equal(:next, pool.call(:next)) }
    ensure
      pool&.close
    end
  end

  def kill_under_two_interrupts(pool)
    victim = Thread.current
    second = TracePoint.new(:c_return) do |event|
      next unless event.method_id == :kill && event.path.end_with?("forked_worker.rb")

      second.disable
      raise NB::Cancelled, "second"
    end
    pool.call(:warm)
    first = Thread.new { sleep(0.005) && victim.raise(NB::Cancelled, "first") }
    second.enable(target_thread: victim)
    assert_equal "second", assert_raises(NB::Cancelled) { pool.call(:sleep) }.message
    first.join
  end

  def test_wrong_arguments_are_refused
    assert_raises(ArgumentError) { NB::ProcessPool.new(size: 1) }
    assert_raises(ArgumentError) { NB::ProcessPool.new(size: 0) { 1 } }
    assert_equal Etc.nprocessors, NB::ProcessPool.new { 1 }.size
  end
end

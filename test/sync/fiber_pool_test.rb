# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "support"

class FiberPoolTest < Minitest::Test
  include SyncSupport

  scheduled "runs_at_once_up_to_its_size_then_in_order" do
    pool = NB::FiberPool.new(2)
    log = []
    5.times { |i| assert_same pool, pool.spawn { (log << i) && sleep(0.01) } }
    assert_equal [0, 1], log
    assert_equal({ size: 2, fibers: 2, busy: 2, queued: 3 }, pool.stats)
    pool.wait
    assert_equal [0, 1, 2, 3, 4], log
    assert_equal({ size: 2, busy: 0, queued: 0 }, pool.stats.except(:fibers))
  end

  scheduled "never_more_than_size_and_fibers_are_reused" do
    pool = NB::FiberPool.new(4)
    running = 0
    peak = 0
    fibers = {}.compare_by_identity
    100.times do |i|
      pool.spawn do
        fibers[Fiber.current] = true
        peak = [peak, running += 1].max
        sleep(0.0001 * (i % 4))
        running -= 1
      end
      sleep(0.0002) if (i % 10).zero?
    end
    pool.wait
    assert_equal 4, peak
    assert_operator fibers.size, :<=, 12, "of 100 blocks"
  end

  scheduled "one_fiber_serves_one_after_the_other" do
    pool = NB::FiberPool.new(4)
    fibers = Array.new(10) do
      done = Thread::Queue.new
      pool.spawn { done.push(Fiber.current) }
      done.pop
    end
    assert_equal 1, fibers.uniq.size
    pool.wait
  end

  scheduled "keeps_its_fibers_only_where_that_keeps_no_loop_going" do
    pool = NB::FiberPool.new(3)
    2.times do
      7.times { pool.spawn { sleep(0.001) } }
      assert_equal 3, pool.fibers.size
      pool.wait
      2.times { sleep(0.001) }
      assert_equal Fiber.scheduler.respond_to?(:idle) ? 3 : 0, pool.fibers.size
    end
  end

  # No close, no wait: the loop must end by itself. In its own loop, or it would prove nothing.
  SyncSupport::SCHEDULERS.each do |name, runner|
    define_method("test_does_not_keep_the_loop_from_ending_on_#{name}") do
      pool = NB::FiberPool.new(3)
      done = 0
      2.times do
        in_loop(runner) { 10.times { pool.spawn { sleep(0.001) && done += 1 } } }
        assert_empty pool.fibers
      end
      assert_equal 20, done
    end
  end

  scheduled "each_block_starts_clean" do
    pool = NB::FiberPool.new(1)
    Thread.current[:spawner] = 1
    Fiber[:spawner] = 1 if Fiber.respond_to?(:[])
    seen = []
    warnings = captured_stderr do
      3.times do |i|
        pool.spawn do
          storage = Fiber.respond_to?(:[]) ? [Fiber[:spawner], Fiber[:job]] : []
          seen << [Thread.current.keys, storage, Fiber.current.instance_variables]
          Thread.current[:job] = i
          Fiber.current.instance_variable_set(:@framework, i) # as an attribute does
          Fiber[:job] = i if Fiber.respond_to?(:[])
        end
      end
      pool.wait
    end
    empty = [[], Fiber.respond_to?(:[]) ? [nil, nil] : [], []]
    assert_equal [empty] * 3, seen
    assert_empty warnings
    assert_equal 1, Thread.current[:spawner]
    assert_equal 1, Fiber[:spawner] if Fiber.respond_to?(:[])
  end

  scheduled "an_error_is_reported_and_harms_nobody" do
    pool = NB::FiberPool.new(1)
    fibers = []
    report = captured_stderr do
      [RuntimeError, NotImplementedError, SystemStackError].each do |kind|
        pool.spawn { (fibers << Fiber.current) && raise(kind, "of a block") }
      end
      pool.spawn { fibers << Fiber.current }
      pool.wait
    end
    assert_equal 1, fibers.uniq.size
    assert_equal 4, fibers.size
    assert_equal 3, report.scan("of a block").size
    assert_match(/NB::FiberPool.* a block raised/, report)
  end

  scheduled "a_cancel_ends_the_fiber_and_the_others_go_on" do
    pool = NB::FiberPool.new(2)
    done = []
    report = captured_stderr do
      pool.spawn { sleep(0.001) && raise(NB::Cancelled, "as a loop does that closes") }
      4.times { |i| pool.spawn { sleep(0.002) && done << i } }
      pool.wait
    end
    assert_equal [0, 1, 2, 3], done.sort
    refute_match(/a block raised/, report)
  end

  scheduled "no_block_has_the_child_status_of_another", others: false do
    pool = NB::FiberPool.new(1)
    seen = []
    system("true")
    2.times { |i| pool.spawn { (seen << $?) && system("exit #{i}") } }
    pool.spawn { sleep(0.0001) && seen << $? }.wait
    assert_equal [nil] * 3, seen
    assert_predicate $?, :success? # the spawner's own
  end

  # Both meet a fiber that is about to go on, so they would come at its next wait.
  # As a timeout does to a fiber that computes.
  scheduled "a_spawn_that_is_struck_at_any_step_leaves_nothing_taken", others: false do
    file = NB::FiberPool.instance_method(:spawn).source_location.first
    (1..).each do |step|
      pool = NB::FiberPool.new(1)
      ended = strike(:line, step, file) { pool.spawn { sleep 0.0001 } }
      Timeout.timeout(20) { pool.wait }
      assert_equal [0, 0], pool.stats.values_at(:busy, :queued), "struck at step #{step}"
      assert_equal :run, NB.group { |group| group.async { ran(pool) }.value }
      break if ended
    end
  end

  def ran(pool)
    done = nil
    pool.spawn { done = :run }
    pool.wait
    done
  end

  scheduled "what_was_to_be_raised_in_one_block_is_not_raised_in_the_next", others: false do
    errors = []
    pool = NB::FiberPool.new(1, on_error: ->(error) { sleep(0.001) && errors << error.message })
    late = RuntimeError.new("late")
    scheduler = Fiber.scheduler
    pool.spawn { scheduler.fiber_interrupt(Fiber.current, late) }
    pool.spawn { sleep(0.001) && errors << "second" }
    pool.spawn { scheduler.fiber_interrupt(Fiber.current, late) || raise("its own") }
    pool.wait
    sleep(0.001) # the fiber rests
    pool.spawn { sleep(0.001) && errors << "third" }
    scheduler.fiber_interrupt(pool.fibers.first, late)
    pool.wait
    assert_equal ["second", "its own", "third"], errors
  end

  # What the block gives in a forked child, by its exit status.
  # From Ruby 4.0 on a forked child has no scheduler, until it runs a loop of its own.
  def status_of_child(&block)
    pid = fork { exit!((RUBY_VERSION >= "4" ? NB.run(&block) : yield) ? 5 : 6) }
    Process::Status.wait(pid).exitstatus
  end

  def test_a_closed_pool_leaves_no_fiber_behind
    left = NB.run do
      idle, busy = Array.new(2) { NB::FiberPool.new(3) }
      3.times { idle.spawn { sleep(0.001) } }
      idle.wait.close
      3.times { busy.spawn { sleep(0.001) } }
      busy.close.wait
      sleep(0.001)
      Fiber.scheduler.waits.reject { |wait| wait[:kind] == :run }
    end
    assert_empty left
  end

  def test_a_forked_child_has_fibers_of_its_own
    NB.run do
      pool = NB::FiberPool.new(2)
      gate = Thread::Queue.new
      2.times { pool.spawn { sleep(0.001) } }
      pool.wait # they rest, one of them then works
      pool.spawn { gate.pop }
      sleep 0.001 until gate.num_waiting == 1
      ran = []
      assert_equal 5, (status_of_child do
        before = pool.stats.values_at(:fibers, :busy)
        3.times { |i| pool.spawn { sleep(0.001) && ran << i } }
        Timeout.timeout(Patience::LIMIT) { pool.wait }
        [before, ran] == [[0, 0], [0, 1, 2]]
      end)
      gate << true
      pool.wait
    end
  end

  def test_a_block_that_forks_leaves_the_other_blocks_to_the_parent
    reader, writer = IO.pipe
    parent = Process.pid
    pid = nil
    NB.run do
      pool = NB::FiberPool.new(1)
      pool.spawn { pid = fork }
      2.times { pool.spawn { writer.syswrite(Process.pid == parent ? "p" : "c") } }
      pool.wait
    end
    exit!(0) unless pid
    Process.wait(pid)
    writer.close
    assert_equal "pp", reader.read
  ensure
    [reader, writer].each(&:close)
  end

  # When the loop closes, its cancel may meet one that was woken and waits no more in its block.
  def test_a_fiber_whose_cancel_came_too_late_ends_with_the_loop
    pool = NB::FiberPool.new(1)
    queue = Thread::Queue.new
    ended = false
    thread = Thread.new do
      Fiber.set_scheduler(NB::Scheduler.new)
      pool.spawn { queue.pop && ended = true }
      Fiber.schedule { sleep(0.001) && queue.push(true) && exit }
    end
    assert_raises(SystemExit) { thread.value }
    assert_equal [true, []], [ended, pool.fibers]
  end

  CANCEL = -> { sleep(0.001) && raise(NB::Cancelled, "as a loop does that closes") }
  KILL = -> { Fiber.method_defined?(:kill) ? sleep(0.001) && Fiber.current.kill : CANCEL.call }

  { cancel: CANCEL, kill: KILL }.each do |name, leave|
    scheduled "after_a_#{name}_what_waits_gets_another_fiber" do
      pool = NB::FiberPool.new(2)
      gate = Thread::Queue.new
      pool.spawn { gate.pop } # ends last: the others do not wait for it
      order = []
      6.times { |i| pool.spawn { order << i && leave.call } }
      pool.spawn { gate.close }
      assert_empty(captured_stderr { Timeout.timeout(20) { pool.wait } })
      assert_equal [*0..5], order
      assert_operator pool.fibers.size, :<=, 2
    end

    scheduled "a_#{name}_of_the_last_block_ends_the_wait" do
      [false, true].each do |closed|
        pool = NB::FiberPool.new(2)
        pool.spawn { sleep(0.0001) } # its fiber rests
        pool.spawn(&leave)
        pool.close if closed
        Timeout.timeout(20) { pool.wait }
        assert_equal 0, pool.stats[:busy]
      end
    end
  end

  def test_blocks_that_never_run_are_not_lost_in_silence
    { "raise KeyError" => KeyError, "exit" => SystemExit }.each do |code, kind|
      pool = NB::FiberPool.new(1)
      report = captured_stderr do
        assert_raises(kind) do
          NB.run do
            pool.spawn { sleep }
            2.times { pool.spawn { flunk } }
            code == "exit" ? exit : raise(KeyError)
          end
        end
      end
      assert_match(/\d blocks of a fiber pool never ran/, report)
    end
  end

  def test_what_waits_does_not_run_after_an_exit_or_a_kill_of_the_thread
    [-> { exit }, -> { Thread.current.kill }].each do |leave|
      pool = NB::FiberPool.new(1)
      ran = false
      report = captured_stderr do
        Thread.new do
          NB.run do
            pool.spawn { sleep(0.001) && leave.call }
            pool.spawn { ran = true }
            sleep
          end
        rescue SystemExit
          nil
        end.join
      end
      assert_match(/1 blocks of a fiber pool never ran/, report)
      refute ran
    end
  end

  scheduled "on_error_takes_what_a_block_raised" do
    errors = []
    pool = NB::FiberPool.new(1, on_error: ->(error) { errors << error.message })
    assert_empty(captured_stderr { pool.spawn { raise "mine" }.wait })
    assert_equal ["mine"], errors
  end

  scheduled "a_full_queue_refuses_clearly" do
    pool = NB::FiberPool.new(1, queue: 2)
    3.times { pool.spawn { sleep(0.002) } }
    error = assert_raises(NB::QueueFullError) { pool.spawn { flunk } }
    assert_match(/1 of 1 fibers busy, 2 blocks waiting of at most 2/, error.message)
    pool.wait
    ran = false
    pool.spawn { ran = true }.wait
    assert ran
  end

  scheduled "a_queue_of_none_refuses_at_once_but_uses_a_free_fiber" do
    pool = NB::FiberPool.new(2, queue: 0)
    gate = Thread::Queue.new
    pool.spawn { gate.pop }
    ran = 0
    1.upto(5) do |number|
      pool.spawn { ran += 1 }
      sleep(0.001) until ran == number && pool.stats[:busy] == 1
    end
    pool.spawn { gate.pop }
    assert_raises(NB::QueueFullError) { pool.spawn { flunk } }
  ensure
    gate.close
    pool.wait
  end

  scheduled "close_refuses_new_blocks_and_finishes_the_old" do
    pool = NB::FiberPool.new(1)
    done = 0
    3.times { pool.spawn { sleep(0.001) && done += 1 } }
    refute_predicate pool, :closed?
    pool.close.wait
    assert_equal 3, done
    assert_predicate pool, :closed?
    assert_raises(NB::ClosedError) { pool.spawn { flunk } }
  end

  scheduled "wait_in_a_block_of_the_pool_is_refused" do
    error = nil
    pool = NB::FiberPool.new(1)
    pool.spawn { error = assert_raises(FiberError) { pool.wait } }
    pool.wait
    assert_match(/itself/, error.message)
  end

  scheduled "another_thread_is_refused_while_fibers_work" do
    pool = NB::FiberPool.new(1)
    gate = Thread::Queue.new
    pool.spawn { gate.pop }
    in_loop(SyncSupport::SCHEDULERS.values.last) do
      assert_raises(NB::WrongThreadError) { pool.spawn { flunk } }
    end
    gate << true
    pool.wait
  end

  scheduled "wrong_arguments_are_refused" do
    assert_match(/got: 0/, assert_raises(ArgumentError) { NB::FiberPool.new(0) }.message)
    assert_raises(ArgumentError) { NB::FiberPool.new("many") }
    assert_raises(ArgumentError) { NB::FiberPool.new(1, queue: -1) }
    assert_raises(ArgumentError) { NB::FiberPool.new(1, on_error: 5) }
    assert_raises(ArgumentError) { NB::FiberPool.new(1).spawn }
    assert_equal 50, NB::FiberPool.new.size
  end

  def test_a_fiber_pool_needs_a_scheduler
    assert_raises(NB::NoSchedulerError) { NB::FiberPool.new(1).spawn { flunk } }
  end

  # In a process that has used up all but a few hundred of its memory mappings: every second page of
  # a large one has another protection, so that each page is a mapping of its own.
  EXHAUST = <<~'RUBY'
    require "fiddle"
    libc = Fiddle.dlopen(nil)
    types = [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT]
    mmap = Fiddle::Function.new(libc["mmap"], types + [Fiddle::TYPE_INT] * 2 + [Fiddle::TYPE_LONG],
                                Fiddle::TYPE_VOIDP)
    mprotect = Fiddle::Function.new(libc["mprotect"], types, Fiddle::TYPE_INT)
    free = File.read("/proc/sys/vm/max_map_count").to_i - File.foreach("/proc/self/maps").count
    pages = free - 600
    start = mmap.call(nil, pages * 4096, 0, 0x22, -1, 0).to_i # anonymous, private
    (0...pages).step(2) { |page| mprotect.call(start + page * 4096, 4096, 1) }
  RUBY

  SyncSupport::SCHEDULERS.each_key do |name|
    define_method("test_no_room_for_more_fibers_becomes_queueing_with_one_warning_on_#{name}") do
      script = <<~RUBY
        require #{File.expand_path("support", __dir__).dump}
        Minitest.singleton_class.define_method(:autorun) { nil }
        #{EXHAUST}
        SyncSupport::SCHEDULERS.fetch(:#{name}).call(lambda do
          pool = NB::FiberPool.new(2_000)
          done = 0
          gate = Thread::Queue.new
          2_000.times { pool.spawn { gate.pop; done += 1 } }
          fibers = pool.fibers.size
          gate.close
          pool.wait
          puts [fibers, done].inspect
          $stdout.flush
          exit!(0) # async's loop would not end: it keeps a task for the fiber it could not make
        end)
      RUBY
      out, warnings, = Open3.capture3(RbConfig.ruby, "-e", script)
      fibers, done = out.scan(/\d+/).map(&:to_i)
      assert_equal 2_000, done, warnings
      assert_includes 50..500, fibers
      assert_equal 1, warnings.scan("vm.max_map_count=262144").size, warnings
      assert_match(/-e:\d+: warning: .* has #{fibers} fibers and the system has no room/, warnings)
      assert_match(RUBY_VERSION >= "4" ? /allocate fiber stack/ : /guard page/, warnings)
    end
  end
end

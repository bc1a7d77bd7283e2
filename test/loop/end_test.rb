# frozen_string_literal: true

require "minitest/autorun"
require "monitor"
require "neverblock"

# How a loop ends when something ends it: the others are cancelled, and nobody hangs.
class LoopEndTest < Minitest::Test
  def test_thread_kill_cancels_the_other_fibers
    log = Thread::Queue.new
    thread = Thread.new do
      NB.run do
        Fiber.schedule { wait_and_log(log) }
        log << :waiting
        sleep
      end
    end
    assert_equal :waiting, log.pop
    thread.kill

    assert thread.join(60), "the killed thread hangs"
    assert_equal NB::Cancelled, log.pop
  end

  def test_thread_kill_while_the_scheduler_closes
    log = Thread::Queue.new
    thread = Thread.new do
      Fiber.set_scheduler(NB::Scheduler.new)
      Fiber.schedule { log << :waiting && wait_and_log(log) }
    end
    assert_equal :waiting, log.pop
    Thread.pass until thread.stop?
    thread.kill

    assert thread.join(60), "the killed thread hangs"
    assert_equal NB::Cancelled, log.pop
  end

  def test_the_threads_own_fiber_raises_in_one_that_waits_before_anything_else_ran
    log = []
    Thread.new do
      Fiber.set_scheduler(NB::Scheduler.new)
      fiber = Fiber.schedule do
        sleep
      rescue ArgumentError => error
        log << error.message
      end
      fiber.raise(ArgumentError, "from outside")
      log << Fiber.scheduler.stats[:ready]
    end.join
    assert_equal ["from outside", 0], log
  end

  def test_an_error_of_the_block_ends_the_others_before_it_is_raised
    log = []
    error = assert_raises(RuntimeError) do
      NB.run do
        Fiber.schedule { wait_and_log(log) }
        raise "the block fails"
      end
    end

    assert_equal "the block fails", error.message
    assert_equal [NB::Cancelled], log
  end

  def test_an_error_of_the_block_after_a_wait_does_so_too
    log = []
    assert_raises(RuntimeError) do
      NB.run do
        Fiber.schedule { wait_and_log(log) }
        sleep 0.01
        raise "the block fails"
      end
    end

    assert_equal [NB::Cancelled], log
  end

  def test_the_loop_waits_for_fibers_that_the_block_left
    log = []
    assert_equal(:value, NB.run { Fiber.schedule { sleep(0.01) && log << :ended } && :value })
    assert_equal [:ended], log
  end

  def test_a_blocking_block_is_the_code_of_the_fiber_around_it
    NB.run do
      Thread.current[:before] = 1
      seen = NB.blocking do
        Thread.current[:left] = 2
        Thread.current[:before].tap { Thread.current[:before] = nil }
      end

      assert_equal [1, nil, 2], [seen, Thread.current[:before], Thread.current[:left]]
      assert_equal(3, catch(:out) { NB.blocking { throw :out, 3 } })
      values = Enumerator.new { |list| NB.blocking { (list << 4) && list << 5 } }

      assert_equal [4, 5], [values.next, values.next]
      assert_raises(StopIteration) { values.next }
    end
  end

  def test_a_blocking_block_holds_the_locks_of_the_fiber_around_it
    lock = Monitor.new
    mutex = Thread::Mutex.new
    NB.run do
      fiber = Fiber.current
      mutex.lock

      assert_equal([fiber, true, true, nil, true], lock.synchronize do
        NB.blocking do
          [Fiber.current, lock.synchronize { lock.mon_owned? }, mutex.owned?,
           Fiber.current_scheduler, Fiber.current.blocking?]
        end
      end)
      assert_equal [false, true], [fiber.blocking?, NB.running?]
    end
  end

  def test_a_blocking_block_that_another_thread_strikes_ends
    caught = NB.run do
      thread = Thread.current
      Array.new(20) do
        Thread.new { thread.raise(IOError, "struck") }
        NB.blocking { sleep(1) }
      rescue IOError => error
        [error.message, NB.running?, Fiber.current.blocking?]
      end
    end
    assert_equal [["struck", true, false]], caught.uniq
  end

  def test_a_run_inside_a_blocking_block_inside_a_loop_has_waits_again
    log = []
    value = NB.run do
      NB.async { sleep(0.01) && log << :other }
      NB.blocking { NB.run { sleep(0.03) && log << :inner && :value } }
    end
    assert_equal [:value, %i[other inner]], [value, log]
    assert_raises(KeyError) { NB.run { NB.blocking { NB.run { sleep 0.001 and raise KeyError } } } }
  end

  def test_the_last_block_given_to_an_idle_fiber_of_a_pool_runs_to_its_end
    log = []
    pool = NB::FiberPool.new(2)
    NB.run do
      pool.spawn { log << :first }
      pool.spawn { sleep(0.01) && log << :second }
    end
    NB.run do
      pool.spawn { log << :third }
      sleep 0.001
      pool.spawn { sleep(0.01) && log << :fourth }
    end
    assert_equal %i[first second third fourth], log
  end

  def test_idle_fibers_do_not_keep_the_loop
    log = []
    NB.run do
      scheduler = Fiber.scheduler
      Fiber.schedule do
        scheduler.idle { sleep }
      rescue NB::Cancelled
        log << :cancelled
        raise
      end
    end

    assert_equal [:cancelled], log
  end

  def test_idle_in_the_block_is_an_ordinary_wait
    log = []
    value = in_time do
      NB.run do
        NB.async { sleep(0.01) && log << :other }
        Fiber.scheduler.idle { sleep(0.002) && log << :idle } && :value
      end
    end
    assert_equal [:value, %i[idle other]], [value, log]
    assert_equal(1, in_time { NB.run { Fiber.scheduler.idle { sleep(0.001) && 1 } } })
  end

  def test_idle_within_idle_counts_once
    log = []
    in_time do
      NB.run do
        NB.async(background: true) do
          Fiber.scheduler.idle { Fiber.scheduler.idle { sleep 0.001 } }
          log << :background
          sleep
        end
        sleep 0.005
        log << :block
      end
    end
    assert_equal %i[background block], log
  end

  if Fiber.method_defined?(:kill)
    def test_fiber_kill_of_the_blocks_fiber_ends_the_loop
      log = []
      assert_nil(in_time do
        NB.run do
          block = Fiber.current
          NB.async { sleep(0.002) && block.kill && sleep(0.002) && log << :other }
          begin
            sleep
          ensure
            log << :ensured
          end
        end
      end)
      assert_equal %i[ensured other], log
    end
  end

  # A timeout or Thread#raise may strike at any step of NB.run, also before the block has begun and
  # when it has ended.
  def test_what_strikes_outside_of_the_block_ends_the_loop_too
    %i[return b_return].each do |event| # where Ruby looks for interrupts
      1.upto(20) do |step|
        outcome = struck_in_runner(event, step)
        assert_includes [[:struck], [:value, 1]], outcome, "#{event} #{step}"
        assert_equal(2, in_time { NB.run { sleep(0.001) && 2 } })
      end
    end
  end

  private

  # What NB.run gives if an exception strikes at this step of its block's fiber.
  def struck_in_runner(event, step)
    in_time do
      Thread.current[:local] = count = 0 # the block's fiber takes it over before the block begins
      value = nil
      trace = TracePoint.new(event) do |point|
        inside = point.path.end_with?("loop/runner.rb") && !Fiber.current.blocking?
        next unless inside && (count += 1) == step

        trace.disable
        raise KeyError
      end
      capture_io do # what strikes as the fiber ends is reported
        value = trace.enable(target_thread: Thread.current) { NB.run { sleep(0.001) && 1 } }
      end
      [:value, value]
    rescue KeyError
      [:struck]
    end
  end

  # On a thread of its own; fails where the block would go on forever.
  def in_time(&block)
    thread = Thread.new(&block)
    thread.report_on_exception = false
    assert thread.join(30), "it does not end"
    thread.value
  ensure
    thread&.kill
  end

  def wait_and_log(log)
    sleep
  rescue NB::Cancelled => error
    log << error.class
    raise
  end
end

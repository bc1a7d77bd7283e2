# frozen_string_literal: true

require_relative "support"
require "neverblock/sync/limiter"

class LimiterTest < Minitest::Test
  include SyncSupport

  everywhere "so_many_run_at_a_time_in_the_order_in_which_they_came" do
    limiter = NB::Limiter.new(3)
    running = most = 0
    begun = []
    concurrently(20) do |index|
      sleep(index * 0.0002)
      limiter.with do
        begun << index
        most = [most, running += 1].max
        sleep(0.001) until most >= 3 # however late a busy machine starts the others
        sleep(0.004)
        running -= 1
      end
    end
    assert_equal 3, most
    # The seed of NB_CHAOS changes in which order they come.
    assert_equal (0..19).to_a, begun if Fiber.current_scheduler && !ENV["NB_CHAOS"]
    assert_equal [3, 0, 0], limiter.stats.values_at(:limit, :running, :waiting)
    assert_operator limiter.stats[:waits], :>, 0
  end

  everywhere "so_many_begin_in_any_span" do
    limiter = NB::Limiter.new(4, per: 0.05)
    begun = []
    start = clock
    concurrently(14) { limiter.with { begun << (clock - start) } }
    assert_equal 14, begun.size
    # A busy machine may begin a block late, but never early.
    begun.sort.each_with_index { |time, index| assert_operator time, :>=, (index / 4) * 0.05 }
  end

  # A long block does not hold up the next: the limit is on beginnings.
  everywhere "per_does_not_wait_for_the_end", clock: :virtual do
    limiter = NB::Limiter.new(2, per: 0.02)
    running = most = 0
    concurrently(6) do
      limiter.with do
        most = [most, running += 1].max
        sleep(0.3)
        running -= 1
      end
    end
    assert_operator most, :>, 2
  end

  everywhere "the_value_and_the_error_are_the_blocks" do
    [NB::Limiter.new(1), NB::Limiter.new(100, per: 1)].each do |limiter|
      assert_equal 42, limiter.with { 42 }
      assert_raises(KeyError) { limiter.with { raise KeyError } }
      assert_equal :left, (catch(:out) { limiter.with { throw :out, :left } })
      assert_equal 7, limiter.with { break 7 }
      assert_equal 43, limiter.with { 43 }
      assert_equal 0, limiter.stats[:waiting]
    end
    assert_equal 0, NB::Limiter.new(2).tap { |one| one.with { 1 } }.stats[:running]
  end

  everywhere "a_turn_that_does_not_come_in_time" do
    limiter = NB::Limiter.new(1)
    limiter.with do
      concurrently(1) do
        error = assert_raises(NB::LimiterTimeoutError) { limiter.with(timeout: 0.01) { flunk } }
        assert_equal "no turn within 0.01 s: #<NB::Limiter 1 at a time, 1 running, 0 waiting>",
          error.message
        assert_raises(NB::LimiterTimeoutError) { limiter.with(timeout: 0) { flunk } }
      end
    end
    assert_equal 2, limiter.stats[:timeouts]
    assert_equal 1, limiter.with(timeout: 0) { 1 }

    limiter = NB::Limiter.new(1, per: 30)
    assert_equal 1, limiter.with { 1 }
    assert_raises(Timeout::Error) { limiter.with(timeout: 1) { flunk } }
    assert_equal({ running: 1, waiting: 0, timeouts: 1 },
      limiter.stats.slice(:running, :waiting, :timeouts))
  end

  # Cancelled in the queue, while it is first in it, and inside: no turn is lost, nor one too many.
  scheduled "cancelled_anywhere" do
    [NB::Limiter.new(2), NB::Limiter.new(2, per: 0.002)].each do |limiter|
      ran = 0
      50.times do |round|
        tasks = Array.new(6) do
          NB::Task.new do
            limiter.with { sleep(0.001) }
            ran += 1
          end
        end
        round.modulo(4).times { sleep(0.0004) }
        tasks.sample(3, random: Random.new(round)).each(&:cancel)
        tasks.each { |task| task.wait(30) or flunk("a turn was lost: #{limiter.inspect}") }
      end
      assert_operator ran, :>=, 150
      sleep(0.003)
      assert_equal [0, 0], limiter.stats.values_at(:running, :waiting)
    end
  end

  # Thread#raise may strike between any two instructions.
  def test_interrupts_of_threads_lose_no_turn
    in_thread(limit: 60) do
      limiter = NB::Limiter.new(2)
      20.times do
        threads = Array.new(4) do
          Thread.new { loop { limiter.with { Thread.pass } } }
        end
        threads.each { |thread| thread.report_on_exception = false }
        sleep(0.002)
        threads.each { |thread| thread.raise("struck") }
        threads.each { |thread| assert_raises(RuntimeError) { thread.join } }
      end
      assert_equal 0, limiter.stats[:running]
      assert_equal 1, limiter.with(timeout: 0) { limiter.with(timeout: 0) { 1 } }
    end
  end

  # At each place where Ruby itself looks for interrupts, one after the other.
  everywhere "an_interrupt_at_any_return_loses_no_turn" do
    limiters = [NB::Limiter.new(1), NB::Limiter.new(1, per: 1e-9)]
    limiters.product([0, nil]) do |limiter, timeout|
      2.times { limiter.with { 1 } }
      at = 0
      nil while strike_at_return(at += 1) { limiter.with(timeout: timeout) { 1 } }
      assert_operator at, :>, 3
      assert_unused limiter
    end
  end

  everywhere "a_second_interrupt_at_any_return_loses_no_turn" do
    make = [-> { NB::Limiter.new(1) }, -> { NB::Limiter.new(1, per: 1e-9) },
            -> { NB::Limiter.new(1)["key"] }]
    make.product([false, true]) do |limiter, contended|
      at = 0
      nil while strike_twice(at += 1, limiter.call, contended)
      assert_operator at, :>, 1
    end
  end

  # A signal's handler raises wherever the main thread is.
  def test_signals_lose_no_turn
    [NB::Limiter.new(1), NB::Limiter.new(1, per: 1e-9)].each do |limiter|
      under_signals(300) { limiter.with { 1 } }
      assert_unused limiter
    end
  end

  # One gives back without the lock while the other begins to wait.
  def test_whoever_begins_to_wait_is_served
    in_thread(limit: 60) do
      limiter = NB::Limiter.new(1)
      running = most = 0
      threads = Array.new(4) do
        Thread.new do
          3_000.times do |turn|
            limiter.with do
              most = [most, running += 1].max
              Thread.pass if turn.modulo(3).zero?
              running -= 1
            end
            Thread.pass if turn.modulo(7).zero?
          end
        end
      end
      threads.each { |thread| thread.join(40) or flunk("not served: #{limiter.inspect}") }
      assert_equal [1, 0], [most, limiter.stats[:running]]
      assert_operator limiter.stats[:waits], :>, 0
    end
  end

  everywhere "alone_it_takes_no_lock" do
    [NB::Limiter.new(5), NB::Limiter.new(5, per: 60)].each do |limiter|
      calls = []
      trace = TracePoint.new(:c_call) { |event| calls << event.callee_id }
      3.times do
        calls.clear
        trace.enable(target_thread: Thread.current) { limiter.with { 1 } }
      end
      assert_empty calls & %i[lock unlock synchronize handle_interrupt]
      assert_equal limiter.per ? 1 : 0, calls.count(:clock_gettime), calls
    end
  end

  # Nobody gives them back there.
  everywhere "a_forked_child_does_not_wait_for_turns_of_the_parent" do
    limiter = NB::Limiter.new(1)
    [limiter, limiter["key"]].each do |one|
      seen = one.with do
        NB::ForkedWorker.run do
          nested = one.with(timeout: 0) do
            one.with(timeout: 0) { :two_at_a_time }
          rescue NB::LimiterTimeoutError
            :one_at_a_time
          end
          [nested, one.stats[:running]]
        end
      end
      assert_equal [:one_at_a_time, 0], seen
      assert_equal 0, one.stats[:running]
    end
  end

  everywhere "a_forked_child_does_not_wait_for_the_span_of_the_parent" do
    limiter = NB::Limiter.new(1, per: 60)
    [limiter, limiter["key"]].each do |one|
      one.with { nil }
      seen = NB::ForkedWorker.run do
        [one.stats[:running], one.with(timeout: 0) { :begun }, one.stats[:running]]
      end
      assert_equal [0, :begun, 1], seen
      assert_equal 1, one.stats[:running]
    end
  end

  def test_a_child_leaves_the_block_in_which_it_was_forked
    limiter = NB::Limiter.new(1)
    pid = limiter.with { fork }
    exit!(limiter.with(timeout: 0) { limiter.stats[:running] == 1 } ? 5 : 6) unless pid
    assert_equal 5, Process::Status.wait(pid).exitstatus
    assert_equal 0, limiter.stats[:running]
  end

  everywhere "one_for_each_key" do
    limiter = NB::Limiter.new(1)
    limiter["a"].with do
      assert_equal :b, limiter["b"].with(timeout: 0) { :b }
      assert_equal 1, limiter["a".dup].stats[:running]
      concurrently(1) do
        assert_raises(NB::LimiterTimeoutError) { limiter["a"].with(timeout: 0) { flunk } }
      end
      assert_equal :itself, limiter.with(timeout: 0) { :itself }
    end
    assert_equal 7, limiter["a"].with { break 7 }
    assert_equal 0, limiter["a"].stats[:running]
  end

  everywhere "keys_that_nobody_uses_are_forgotten_and_those_in_use_are_not" do
    limiters = NB::KeyedLimiters.new { NB::Limiter.new(1) }
    limiters["kept"].with do
      5_000.times { |key| limiters[key].with { 1 } }
      assert_operator limiters.size, :<=, 1_001
      concurrently(1) do
        assert_raises(NB::LimiterTimeoutError) { limiters["kept"].with(timeout: 0) { flunk } }
      end
    end
    timed = NB::KeyedLimiters.new { NB::Limiter.new(1, per: 60) }
    1_500.times { |key| timed[key].with { 1 } }
    assert_equal 1_500, timed.size, "their time is not over"
  end

  def test_a_key_that_is_taken_while_it_is_forgotten_is_still_its_own
    in_thread do
      limiters = NB::KeyedLimiters.new { NB::Limiter.new(1) }
      gate = Thread::Queue.new
      limiter = limiters.of("taken")
      holder = nil
      limiter.define_singleton_method(:fresh?) do
        next super() if holder

        holder = Thread.new { limiters["taken"].with { gate.pop } }
        Thread.pass until stats[:running] == 1
        true # as it was
      end
      1_000.times { |key| limiters.of(key) }
      assert holder
      assert_same limiter, limiters.of("taken")
      gate.close
      holder.join
    end
  end

  everywhere "wrong_arguments" do
    { 0 => "limit must be a whole number of 1 or more, got: 0",
      nil => "limit must be a whole number of 1 or more, got: nil" }.each do |value, message|
      assert_equal message, assert_raises(ArgumentError) { NB::Limiter.new(value) }.message
    end
    ["1", -1, 0, Float::INFINITY].each do |value|
      error = assert_raises(ArgumentError) { NB::Limiter.new(1, per: value) }
      assert_equal "per: must be seconds, more than 0, got: #{value.inspect}", error.message
    end
    error = assert_raises(ArgumentError) { NB::Limiter.new(1).with }
    assert_equal "Limiter#with needs a block", error.message
    assert_raises(ArgumentError) { NB::Limiter.new(1).with(timeout: -1) { flunk } }
  end

  private

  Strike = Class.new(StandardError)

  def assert_unused(limiter)
    slots = limiter.instance_variable_get(:@slots)
    assert_equal [0, 0], slots.stats.values_at(:in_use, :waiting)
    assert_equal 1, limiter.with(timeout: 0) { 1 }
  end

  # @return [Boolean] whether there were so many returns
  def strike_at_return(count)
    trace = strike_at(count)
    trace.enable(target_thread: Thread.current)
    yield
    false
  rescue Strike
    true
  ensure
    trace.disable
  end

  def strike_at(count)
    trace = TracePoint.new(:return, :b_return) do |event|
      next unless event.path.include?("neverblock/sync") && (count -= 1).zero?

      trace.disable
      raise Strike
    end
  end

  # In the block, and as that leaves; with another one there that waits for the turn.
  def strike_twice(count, limiter, contended)
    struck = false
    first = Thread::Queue.new
    concurrently(contended ? 2 : 1) do |index|
      next struck = strike_in(limiter, strike_at(count)) { first << 1 } if index.zero?

      first.pop
      limiter.with { 1 }
    end
    assert_equal 1, limiter.with(timeout: 1) { 1 }
    struck
  end

  def strike_in(limiter, trace)
    limiter.with do
      yield
      sleep(0.001)
      trace.enable(target_thread: Thread.current)
      raise KeyError
    end
  rescue KeyError
    false
  rescue Strike
    true
  ensure
    trace.disable
  end

  def under_signals(count, &block)
    armed = false
    old = trap(:USR1) do
      raise Strike, (armed = false).to_s if armed
    end
    pid = fork { loop { Process.kill(:USR1, Process.ppid) && sleep(0.0005) } }
    count.times do
      armed = true
      loop(&block)
    rescue Strike
      next
    end
  ensure
    armed = false
    Process.kill(:KILL, pid)
    Process.wait(pid)
    trap(:USR1, old)
  end
end

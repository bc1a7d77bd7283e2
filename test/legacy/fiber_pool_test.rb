# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "../support/clock"
require_relative "../support/timing"

# What the specs of 2008 assert of the fiber pool, and the same inside a loop.
class LegacyFiberPoolTest < Minitest::Test
  include Clock

  def setup = @pool = NB::Pool::FiberPool.new(10)

  def test_all_fibers_are_ready_and_the_queue_is_empty
    assert_equal 10, @pool.fibers.size
    assert_empty @pool.instance_variable_get(:@queue)
    assert_empty @pool.instance_variable_get(:@busy_fibers)
  end

  def test_every_fiber_is_a_neverblock_one
    assert(@pool.fibers.all? { |fiber| fiber[:neverblock] == true })
    @pool.spawn { @flag = NB.neverblocking? }
    assert_equal true, @flag
    refute_predicate NB, :neverblocking?
  end

  def test_a_block_runs_at_once_and_the_fiber_is_free_again
    @pool.spawn { @fiber = Fiber.current }
    assert_kind_of NB::Fiber, @fiber
    assert_includes @pool.fibers, @fiber
    assert_equal 10, @pool.fibers.size
  end

  def test_spawn_returns_the_pool = assert_same(@pool, @pool.spawn { nil })

  def test_blocks_that_find_no_fiber_wait_and_whoever_ends_runs_them
    stopped, done = spawn_fifteen
    assert_equal [10, 5, 0], [stopped.size, @pool.queue.size, @pool.fibers.size]
    assert_equal 10, @pool.busy_fibers.size
    assert_same stopped.first, @pool.busy_fibers[stopped.first.object_id]

    stopped.first.resume
    assert_equal [[0], 11, 4], [done, stopped.size, @pool.queue.size] # the 11th stopped, too
    stopped.first.resume until @pool.queue.empty?
    stopped.first.resume
    assert_equal [0, 10, 11, 12, 13, 14], done
    stopped[1..9].each.with_index(2) do |fiber, free|
      fiber.resume
      assert_equal free, @pool.fibers.size
    end
    assert_equal (0..14).to_a, done.sort
  end

  def test_the_end_of_one_block_runs_all_that_wait_if_they_do_not_stop
    order = []
    pool = NB::Pool::FiberPool.new(1)
    pool.spawn { Fiber.yield && order << :first }
    5.times { |i| pool.spawn { order << i } }
    assert_equal [5, []], [pool.queue.size, order]
    pool.instance_variable_get(:@busy_fibers).values.first.resume(true)
    assert_equal [:first, 0, 1, 2, 3, 4], order
  end

  def test_callbacks_run_after_the_block_the_last_one_first
    order = []
    @pool.spawn do
      %i[first last].each { |name| Fiber.current[:callbacks] << -> { order << name } }
      order << :block
    end
    assert_equal %i[block last first], order
  end

  def test_an_error_of_a_block_harms_neither_the_fiber_nor_the_next_block
    errors = []
    order = []
    pool = NB::Pool::FiberPool.new(1, on_error: errors.method(:push))
    pool.spawn do
      Fiber.current[:callbacks] << -> { order << :callback }
      raise "no"
    end
    pool.spawn { order << :next }
    assert_equal [["no"], %i[callback next], 1], [errors.map(&:message), order, pool.fibers.size]
  end

  def test_a_fiber_that_something_else_than_an_error_ends_is_replaced
    pool = NB::Pool::FiberPool.new(1)
    assert_raises(SystemExit) { pool.spawn { exit } }
    assert_empty pool.busy_fibers
    pool.spawn { @ran = true }
    assert @ran
  end

  def test_without_a_loop_wait_tells_that_nobody_can_resume
    @pool.wait
    @pool.spawn { Fiber.yield }
    error = assert_raises(NB::NBError) { @pool.wait }
    assert_match(/1 blocks have stopped/, error.message)
  end

  def test_a_closed_pool_takes_no_block
    @pool.close
    assert_raises(NB::ClosedError) { @pool.spawn { flunk } }
    assert_raises(ArgumentError) { @pool.spawn }
  end

  # --- in a loop --------------------------------------------------------------------------------

  def test_in_a_loop_blocks_wait_at_once
    start = clock
    NB.run { 20.times { @pool.spawn { sleep 0.1 } } }
    assert_between 0.2, 1, clock - start
  end

  def test_in_a_loop_a_block_stops_and_is_resumed
    NB.run do
      stopped, done = spawn_fifteen
      assert_equal [10, 5], @pool.stats.values_at(:busy, :queued)
      stopped.shift.resume while stopped.any? || (sleep(0) && stopped.any?)
      @pool.wait
      assert_equal (0..14).to_a, done.sort
    end
  end

  def test_in_a_loop_the_one_who_resumes_does_not_wait_for_what_comes_next
    NB.run do
      @pool.spawn { @fiber = Fiber.current and Fiber.yield and sleep 0.1 and @slept = true }
      @fiber.resume(true)
      refute @slept
      @pool.wait
      assert @slept
      assert_raises(FiberError) { @fiber.resume }
    end
  end

  def test_in_a_loop_a_fiber_may_be_resumed_from_another_thread_and_before_it_stops
    NB.run do
      @pool.spawn do
        fiber = Fiber.current
        Thread.new { fiber.resume(:a, :thread) }.join
        @value = Fiber.yield
      end
      @pool.wait
    end
    assert_equal %i[a thread], @value
  end

  def test_in_a_loop_the_end_of_the_loop_runs_every_ensure
    order = []
    assert_raises(RuntimeError) do
      NB.run do
        { stopped: -> { Fiber.yield }, asleep: -> { sleep } }.each do |name, wait|
          @pool.spawn do
            wait.call
          ensure
            order << name
          end
        end
        raise "the end"
      end
    end
    assert_equal %i[asleep stopped], order.sort
  end

  def test_in_a_loop_errors_and_callbacks_are_as_without
    errors = []
    order = []
    NB.run do
      pool = NB::Pool::FiberPool.new(1, on_error: errors.method(:push))
      pool.spawn { (Fiber.current[:callbacks] << -> { order << 1 }) && sleep(0.01) && raise("no") }
      pool.spawn { order << 2 }
    end
    assert_equal [["no"], [1, 2]], [errors.map(&:message), order]
  end

  def test_in_a_loop_a_block_can_be_blocking
    NB.run do
      ticks = 0
      NB.async { 100.times { (ticks += 1) && sleep(0.001) } }
      before = ticks
      @pool.spawn(false) { @flag = [NB.neverblocking?, sleep(0.05)].first }
      assert_equal [false, before], [@flag, ticks]
      @pool.spawn { @flag = [NB.neverblocking?, sleep(0.02)].first }.wait
      assert_equal true, @flag
      assert_operator ticks, :>, before
    end
  end

  private

  # Fifteen blocks that stop, and then note that they are done.
  def spawn_fifteen
    stopped = []
    done = []
    15.times do |i|
      @pool.spawn do
        stopped << Fiber.current
        Fiber.yield
        done << i
      end
    end
    [stopped, done]
  end
end

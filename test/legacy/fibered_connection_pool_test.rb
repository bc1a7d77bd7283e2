# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "../support/clock"
require_relative "../support/timing"

# What the specs of 2008 assert of the connection pool, and the same inside a loop.
class LegacyConnectionPoolTest < Minitest::Test
  include Clock

  # A connection that knows in which state it is.
  Connection = Struct.new(:number, :transaction_status, :closed) do
    def close = self.closed = true
    def closed? = closed
  end

  def setup = @made = []

  def test_a_pool_is_lazy_unless_told
    pool = pool_of(10)
    assert_equal [0, 0, 0, 0], [connections(pool), busy(pool), queue(pool), @made].map(&:size)
    assert_equal 10, connections(pool_of(10, eager: true)).size
    assert_equal [10, 8], [pool.size, NB::Pool::FiberedConnectionPool.new { nil }.size]
  end

  def test_a_hold_makes_one_connection_which_comes_back
    pool = pool_of(10)
    value = pool.hold { |connection| [connection, busy(pool).size] }
    assert_equal [@made.first, 1], value
    assert_equal [@made, 0], [connections(pool), busy(pool).size]
    pool.hold { |connection| assert_same @made.first, connection }
    assert_equal 1, @made.size
  end

  def test_fifteen_fibers_share_ten_connections
    pool = pool_of(10, eager: true)
    stopped, done = hold_in_fifteen(pool)
    assert_equal [0, 10, 5], [connections(pool).size, busy(pool).size, queue(pool).size]
    assert_equal 10, stopped.size
    stopped.shift.resume until stopped.empty?
    assert_equal [(0..14).to_a, 10, 0, 0, 10],
      [done, connections(pool).size, busy(pool).size, queue(pool).size, @made.size]
  end

  def test_the_same_with_the_fiber_pool
    pool = pool_of(10)
    fibers = NB::Pool::FiberPool.new(15)
    stopped, done = hold_in_fifteen(pool) { |block| fibers.spawn(&block) }
    stopped.shift.resume until stopped.empty?
    assert_equal [(0..14).to_a, 10, 15], [done, @made.size, fibers.fibers.size]
  end

  def test_a_transaction_has_the_same_connection_until_it_is_released
    pool = pool_of(2)
    fiber = Fiber.new do
      first = pool.hold(true) { |connection| connection }
      Fiber.yield(first)
      assert_same first, pool.hold { |connection| connection }
      assert_same first, pool.hold(true) { |connection| connection }
      assert_equal 1, busy(pool).size
      pool.release(Fiber.current, first)
    end
    first = fiber.resume
    pool.hold { |connection| refute_same first, connection }
    fiber.resume
    assert_equal [2, 0], [connections(pool).size, busy(pool).size]
  end

  def test_a_nested_hold_has_the_same_connection
    pool = pool_of(2)
    pool.hold do |one|
      pool.hold { |other| assert_same one, other }
      assert_equal 1, busy(pool).size
    end
    assert_equal [1, 0], [connections(pool).size, busy(pool).size]
  end

  def test_an_error_gives_the_connection_back
    pool = pool_of(1)
    assert_raises(RuntimeError) { pool.hold { raise "no" } }
    assert_equal [1, 0], [connections(pool).size, busy(pool).size]
  end

  def test_a_connection_in_a_transaction_is_not_handed_over
    pool = pool_of(1)
    pool.hold { |connection| connection.transaction_status = 2 }
    assert_equal [true, [], 0], [@made.first.closed, connections(pool), busy(pool).size]
    pool.hold { |connection| assert_same @made.last, connection }
  end

  def test_an_interrupted_connection_is_not_handed_over
    pool = pool_of(1)
    assert_raises(Timeout::Error) { pool.hold(true) { raise Timeout::Error } }
    assert_equal [true, 0], [@made.first.closed, busy(pool).size]
    pool.hold { |connection| refute connection.closed? }
  end

  def test_the_connection_of_a_killed_thread_is_not_handed_over
    pool = pool_of(1)
    Thread.new { pool.hold(true) { Thread.current.kill } }.join
    assert_equal [true, 0], [@made.first.closed, busy(pool).size]
    pool.hold { |connection| refute connection.closed? }
  end

  FILES = %r{/(legacy/fibered_connection_pool|sync/interruption)\.rb\z}.freeze

  # The second comes at each line and return in turn, while the first one leaves.
  def test_a_second_interrupt_hands_over_no_interrupted_connection
    struck = (1..).take_while do |place|
      pool = pool_of(1)
      first, events = nil, 0
      trace = TracePoint.new(:line, :return) do |point|
        raise NB::Cancelled, "second" if FILES.match?(point.path) && (events += 1) == place
      end
      begin
        pool.hold do |connection|
          first = connection
          trace.enable(target_thread: Thread.current)
          raise NB::Cancelled, "first"
        end
      rescue NB::Cancelled
        trace.disable
      end
      pool.hold { |connection| refute_same first, connection, "struck at #{place}" }
      events >= place
    end
    assert_operator struck.size, :>, 3
  end

  def test_a_deadline_that_strikes_the_end_of_a_connection_comes_out
    pool = pool_of(1)
    late = Class.new(StandardError)
    NB.run do
      assert_raises(late) do
        Timeout.timeout(0.01, late) do
          pool.hold do |connection|
            connection.transaction_status = 2
            connection.define_singleton_method(:close) { sleep }
          end
        end
      end
      assert_equal [[], 0], [connections(pool), busy(pool).size]
      pool.hold { |connection| assert_same @made.last, connection }
    end
  end

  def test_a_failed_connect_leaves_its_place_to_the_next
    fail_first = true
    pool = NB::Pool::FiberedConnectionPool.new(size: 1) do
      fail_first ? (fail_first = false) || raise(IOError, "refused") : connect
    end
    assert_raises(IOError) { pool.hold { flunk } }
    pool.hold { |connection| assert_same @made.first, connection }
  end

  def test_a_lost_connection_is_replaced
    pool = pool_of(1)
    pool.hold do |connection|
      assert_same pool.replace_acquired_connection, @made.last
      pool.hold { |other| refute_same connection, other }
      assert connection.closed?
    end
    assert_equal [[@made.last], 0], [connections(pool), busy(pool).size]
    assert_raises(NB::NBError) { pool.replace_acquired_connection }
  end

  def test_all_connections_are_those_in_use_too
    pool = pool_of(3, eager: true)
    seen = []
    pool.hold { pool.all_connections { |connection| seen << connection.number } }
    assert_equal [0, 1, 2], seen.sort
  end

  def test_who_cannot_wait_is_told_so
    pool = pool_of(1)
    Fiber.new { pool.hold(true) { Fiber.yield } }.tap(&:resume)
    error = assert_raises(NB::NBError) { pool.hold { flunk } }
    assert_match(/the pool has nothing free/, error.message)
    assert_empty queue(pool)
  end

  def test_what_a_fiber_held_when_it_ended_is_closed
    pool = pool_of(1)
    Fiber.new { pool.hold(true) { nil } }.resume
    pool.hold { |connection| assert_same @made.last, connection }
    assert_equal [2, true], [@made.size, @made.first.closed]
  end

  def test_it_needs_to_know_how_to_connect
    assert_raises(ArgumentError) { NB::Pool::FiberedConnectionPool.new }
    assert_raises(ArgumentError) { pool_of(0) }
  end

  # --- in a loop --------------------------------------------------------------------------------

  def test_in_a_loop_seventeen_fibers_wait_for_eight_connections_in_their_order
    pool = pool_of(8)
    order = []
    start = clock
    NB.run { 17.times { |i| NB.async { pool.hold { sleep(0.1) && order << i } } } }
    assert_between 0.3, 1.6, clock - start
    assert_equal [(0..16).to_a, 8], [order, @made.size]
    assert_equal [8, 0], [connections(pool).size, busy(pool).size]
  end

  def test_in_a_loop_connections_that_are_being_made_count
    pool = NB::Pool::FiberedConnectionPool.new(size: 2) { sleep(0.01) && connect }
    NB.run { 10.times { NB.async { pool.hold { sleep 0.001 } } } }
    assert_equal 2, @made.size
  end

  def test_in_a_loop_whoever_is_interrupted_in_the_queue_leaves_it
    pool = pool_of(1)
    NB.run do
      done = Thread::Queue.new
      holder = NB.async { pool.hold { done.pop } }
      assert_raises(Timeout::Error) { NB.timeout(0.01) { pool.hold { flunk } } }
      assert_empty queue(pool)
      waiting = NB.async { pool.hold { flunk } }
      last = NB.async { pool.hold { :served } }
      waiting.cancel
      done << true
      assert_equal :served, last.value
      holder.wait
    end
    assert_equal [1, 0, 1], [connections(pool).size, busy(pool).size, @made.size]
  end

  def test_in_a_loop_whoever_is_interrupted_with_a_connection_just_given_passes_it_on
    pool = pool_of(1)
    NB.run do
      holder = NB.async { pool.hold { sleep 0.01 } }
      second = NB.async { pool.hold { sleep } }
      third = NB.async { pool.hold { :served } }
      holder.wait # it has given its connection to the second, which has not gone on yet
      second.cancel
      assert_equal :served, third.value
    end
    assert_equal [1, 0], [connections(pool).size, busy(pool).size]
  end

  private

  def connect = Connection.new(@made.size, 0).tap { |connection| @made << connection }

  def pool_of(size, **options)
    NB::Pool::FiberedConnectionPool.new({ size: size, **options }) { connect }
  end

  def hold_in_fifteen(pool)
    stopped = []
    done = []
    15.times do |i|
      block = lambda do
        pool.hold do
          stopped << Fiber.current
          Fiber.yield
          done << i
        end
      end
      block_given? ? yield(block) : Fiber.new(&block).resume
    end
    [stopped, done]
  end

  def connections(pool) = pool.instance_variable_get(:@connections)
  def busy(pool) = pool.instance_variable_get(:@busy_connections)
  def queue(pool) = pool.instance_variable_get(:@queue)
end

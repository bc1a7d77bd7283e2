# frozen_string_literal: true

require_relative "support"

# Interrupts at random points, in every phase of ConnectionPool#with. What must hold then and after:
# no connection in two hands, none lost, all slots there.
class ConnectionPoolChaosTest < Minitest::Test
  include SyncSupport

  SIZE = 3

  # Notices who uses it at once. A connection in the pool of the test is never used without a wait.
  # An interrupt that strikes the end of its use leaves it in use forever.
  Connection = Struct.new(:users, :most, :closed) do
    def use
      self.users += 1
      self.most = [most, users].max
      sleep(0.0002)
    ensure
      sleep(0.0001)
      self.users -= 1
    end

    def close = self.closed += 1
    def closed? = closed.positive?
  end

  def chaos_pool(random, made)
    NB::ConnectionPool.new(size: SIZE, timeout: 0.02, alive: lambda do |connection|
      sleep(0.0001) if random.rand < 0.3
      !connection.closed? && random.rand > 0.05
    end) do
      sleep(0.0003) if random.rand < 0.7
      raise IOError, "refused" if random.rand < 0.2

      made << Connection.new(0, 0, 0)
      made.last
    end
  end

  def visit(pool, random)
    pool.with do |connection|
      connection.use
      pool.with(&:use) if random.rand < 0.2
      pool.discard if random.rand < 0.1
      raise KeyError if random.rand < 0.1
    end
  rescue KeyError, IOError, Timeout::Error
    nil # part of the plan, as are timeouts of the pool
  end

  def worker(pool, random)
    60.times do
      if random.rand < 0.3
        begin
          Timeout.timeout(random.rand * 0.001) { visit(pool, random) }
        rescue Timeout::Error
          nil
        end
      else
        visit(pool, random)
      end
    end
  end

  def assert_nothing_broken(pool, made)
    stats = pool.stats
    assert_equal [0, 0], stats.values_at(:in_use, :waiting), "leaked slots or waiters: #{stats}"
    assert_operator stats[:idle], :<=, SIZE
    assert_equal 1, made.map(&:most).max, "in two hands"
    assert_operator made.map(&:closed).max, :<=, 1
    inside = 0
    peak = 0
    in_parallel(SIZE) do
      pool.with(timeout: 5) do
        peak = [peak, inside += 1].max
        settled { peak == SIZE }
        inside -= 1
      rescue IOError
        retry
      end
    end
    assert_equal SIZE, peak, "a slot is lost"
  end

  def in_parallel(count)
    concurrently(count) do |index|
      yield index
    rescue IOError
      retry
    end
  end

  3.times do |round|
    scheduled "cancels_of_fibers_round_#{round}" do
      seed = Minitest.seed + round
      random = Random.new(seed)
      made = []
      pool = chaos_pool(random, made)
      tasks = Array.new(12) { NB::Task.new { worker(pool, random) } }
      chaos = NB::Task.new do
        80.times do
          sleep(random.rand * 0.001)
          tasks.sample(random: random).cancel
          tasks << NB::Task.new { worker(pool, random) } if random.rand < 0.8
          pool.reload if random.rand < 0.1
        end
      end
      chaos.wait
      tasks.each(&:wait)
      assert_nothing_broken(pool, made)
    rescue Minitest::Assertion => error
      flunk "#{error.message} (seed #{seed})"
    end

    define_method("test_interrupts_of_threads_round_#{round}") do
      seed = Minitest.seed + round
      random = Random.new(seed)
      made = []
      pool = chaos_pool(random, made)
      in_thread { threads_of_chaos(pool, random).each { |thread| join_at_last(thread) } }
      in_thread { assert_nothing_broken(pool, made) }
    rescue Minitest::Assertion => error
      flunk "#{error.message} (seed #{seed})"
    end
  end

  POOL = %r{/neverblock/sync/(connection_pool|interruption)\.rb\z}

  # Thread#raise strikes where a method returns. Here it does so at each return in turn.
  def test_an_interrupt_at_any_return_leaves_no_slot_behind
    struck = (0..).take_while do |place|
      pool = NB::ConnectionPool.new(size: 1, alive: :itself.to_proc) { StringIO.new }
      pool.with { :made }
      strike(place) { pool.with { |connection| connection.write("x") } }.tap do
        assert_equal [0, 0], pool.stats.values_at(:in_use, :waiting), "struck at return #{place}"
        pool.with(timeout: 0) { :again }
      end
    end
    assert_operator struck.size, :>, 5
  end

  # What the first has left half done is not handed out, wherever the second comes.
  def test_a_second_interrupt_at_any_return_keeps_no_half_used_connection
    struck = (0..).take_while do |place|
      pool = NB::ConnectionPool.new(size: 1) { Connection.new(0, 0, 0) }
      first = pool.with(&:itself)
      second = strike(place) do |trace|
        pool.with do
          trace.enable(target_thread: Thread.current)
          raise NB::Cancelled, "first"
        end
      rescue NB::Cancelled => error
        raise if error.message == "struck"
      end
      again = pool.with(timeout: 0, &:itself)
      refute_same first, again, "struck at return #{place}"
      assert_equal [1, 0], [first.closed, again.closed]
      second
    end
    assert_operator struck.size, :>, 5
  end

  # @yieldparam trace [TracePoint] to be enabled, else it is from the start
  # @return [Boolean] whether there were so many returns
  def strike(place, &block)
    returns = -1
    trace = TracePoint.new(:return) do |point|
      raise NB::Cancelled, "struck" if POOL.match?(point.path) && (returns += 1) == place
    end
    block.arity.zero? ? trace.enable(target_thread: Thread.current, &block) : yield(trace)
    false
  rescue NB::Cancelled
    true
  ensure
    trace.disable
  end

  def threads_of_chaos(pool, random)
    threads = Array.new(6) { thread_of_chaos(pool, random) }
    60.times do
      sleep(random.rand * 0.001)
      victim = threads.sample(random: random)
      random.rand < 0.8 ? victim.raise(NB::Cancelled, "chaos") : victim.kill
      threads << thread_of_chaos(pool, random) if random.rand < 0.8
      pool.reload if random.rand < 0.1
    end
    threads
  end

  def join_at_last(thread)
    thread.join
  rescue NB::Cancelled
    nil # struck while it was on its way in or out
  end

  def thread_of_chaos(pool, random)
    Thread.new do
      worker(pool, random)
    rescue NB::Cancelled
      nil
    end.tap { |it| it.report_on_exception = false }
  end
end

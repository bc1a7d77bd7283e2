# frozen_string_literal: true

require_relative "pooled_connections"

# How NB::ConnectionPool lends its connections, and to whom.
class ConnectionPoolTest < Minitest::Test
  include SyncSupport
  include PooledConnections

  # As trilogy before 2.8, which has no `check` yet.
  def test_lends_again_what_tells_of_results_only
    made = 0
    pool = NB::ConnectionPool.new(size: 1) do
      made += 1
      Object.new.tap { |one| one.define_singleton_method(:more_results_exist?) { false } }
    end
    2.times { pool.with { nil } }
    assert_equal 1, made
  end

  everywhere "lends_at_most_size_connections_and_reuses_them" do
    pool, made = pool_and_made(size: 3)
    assert_empty made
    concurrently(20) { pool.with { |connection| connection.use { sleep(0.001) } } }
    assert_equal 3, made.size
    assert_at_rest(pool, made)
    assert_equal :value, pool.with { :value }
  end

  everywhere "prefers_an_idle_connection_to_a_new_one" do
    pool, made = pool_and_made(size: 3)
    5.times { pool.with(&:use) }
    assert_equal 1, made.size
  end

  everywhere "within_with_the_same_fiber_has_the_same_connection" do
    pool, made = pool_and_made(size: 1, timeout: 0.01)
    pool.with do |outer|
      pool.with { |inner| assert_same outer, inner }
      assert_equal 1, pool.stats[:in_use], "given back too early"
    end
    assert_at_rest(pool, made)
  end

  everywhere "another_fiber_within_with_has_another_connection" do
    pool, made = pool_and_made(size: 2, timeout: 0.1)
    pool.with do |mine|
      concurrently(1) { pool.with { |other| refute_same mine, other } }
    end
    assert_equal 2, made.size
  end

  everywhere "waiters_are_served_in_order_one_per_check_in" do
    pool, made = pool_and_made(size: 1)
    order = []
    gate = Thread::Queue.new
    holder = start { pool.with { gate.pop } }
    assert(settled { pool.stats[:in_use] == 1 })
    waiters = Array.new(10) do |i|
      one = start { pool.with { (order << i) && sleep(0.0005) } }
      assert(settled { pool.stats[:waiting] == i + 1 })
      one
    end
    gate.close
    [holder, *waiters].each(&:value)
    assert_equal (0..9).to_a, order
    assert_equal 10, pool.stats[:waits]
    assert_operator pool.stats[:wait_seconds], :>=, 10 * 0.0005
    assert_operator pool.stats[:longest_wait_seconds], :<=, pool.stats[:wait_seconds]
    assert_at_rest(pool, made)
  end

  scheduled "a_thousand_fibers_on_twelve_connections_in_turn" do
    pool, made = pool_and_made(size: 12)
    order = []
    gate = Thread::Queue.new
    opener = start { assert(settled { pool.stats[:waiting] == 988 }) && gate.close }
    concurrently(1_000) { |i| pool.with { |one| one.use { (order << i) && gate.pop } } }
    opener.value
    # Twelve are served at a time; which of those runs first is the scheduler's affair.
    farthest = order.each_with_index.map { |i, place| (i - place).abs }.max
    assert_operator farthest, :<, 24, "who came first was not served first" unless ENV["NB_CHAOS"]
    assert_equal 12, made.size
    assert_equal 988, pool.stats[:waits]
    assert_at_rest(pool, made)
  end

  everywhere "nobody_overtakes_who_waits" do
    pool, = pool_and_made(size: 1)
    order = []
    waiter = nil
    pool.with do
      waiter = start { pool.with { order << :waiter } }
      assert(settled { pool.stats[:waiting] == 1 })
    end
    pool.with { order << :late } # the connection is the waiter's already
    waiter.value
    assert_equal %i[waiter late], order
  end

  everywhere "timeout_says_what_is_going_on" do
    pool, made = pool_and_made(size: 1, timeout: 0.01)
    pool.with do
      concurrently(1) do
        time = elapsed do
          error = assert_raises(NB::PoolTimeoutError) { pool.with { flunk } }
          assert_equal "no connection within 0.01 s (1 of 1 in use, 1 waiting): raise size: or " \
                       "shorten the work in #with", error.message
          assert_kind_of Timeout::Error, error
          assert_kind_of NB::Error, error
        end
        assert_operator time, :>=, 0.0099
        error = assert_raises(NB::PoolTimeoutError) { pool.with(timeout: 0) { flunk } }
        assert_match(/within 0 s/, error.message)
      end
    end
    assert_equal 2, pool.stats[:timeouts]
    assert_equal 1, pool.with(timeout: 0) { 1 }
    assert_at_rest(pool, made)
  end

  everywhere "no_timeout_waits_for_ever" do
    pool, made = pool_and_made(size: 1, timeout: nil)
    waiter = nil
    pool.with do
      waiter = start { pool.with { :served } }
      assert(settled { pool.stats[:waiting] == 1 })
      sleep(0.01)
      assert_equal 1, pool.stats[:waiting]
    end
    assert_equal :served, waiter.value
    assert_at_rest(pool, made)
  end

  everywhere "a_connection_that_fails_to_be_made_leaves_its_slot_to_the_next" do
    attempts = 0
    pool = NB::ConnectionPool.new(size: 1) do
      attempts += 1
      sleep(0.001)
      attempts <= 2 ? raise(IOError, "refused #{attempts}") : Connection.new(attempts)
    end
    results = Array.new(4) do
      start do
        pool.with(&:id)
      rescue IOError => error
        error.message
      end
    end
    assert_equal ["3", "3", "refused 1", "refused 2"], results.map { |one| one.value.to_s }.sort
    assert_equal 1, pool.stats[:idle]
    assert_equal 0, pool.stats[:in_use]
  end

  everywhere "a_connect_block_that_returns_nil_is_an_error" do
    pool = NB::ConnectionPool.new(size: 1) { nil }
    2.times { assert_match(/nil/, assert_raises(TypeError) { pool.with { flunk } }.message) }
    assert_equal 0, pool.stats[:in_use]
  end

  everywhere "a_dead_connection_is_closed_and_replaced" do
    pool, made = pool_and_made(size: 1)
    pool.with { |connection| connection.define_singleton_method(:closed?) { true } }
    assert_equal 1, pool.with(&:id)
    assert_equal [1, 0], made.map(&:closed_count)
    finished = Struct.new(:finished?)
    pool = NB::ConnectionPool.new(size: 1) { finished.new(true) }
    refute_same pool.with(&:itself), pool.with(&:itself)
  end

  everywhere "alive_is_asked_for_idle_connections_only" do
    asked = []
    pool, made = pool_and_made(size: 1, alive: lambda do |connection|
      asked << connection.id
      raise IOError if connection.id == 1

      connection.id != 0
    end)
    3.times { pool.with(&:use) }
    assert_equal [0, 1], asked
    assert_equal 3, made.size, "an alive: that raises says no"
    assert_equal [1, 1, 0], made.map(&:closed_count)
  end

  everywhere "a_deadline_that_strikes_in_alive_is_not_swallowed" do
    strike = true
    pool, made = pool_and_made(size: 1, alive: ->(_) { strike ? raise(Timeout::Error) : true })
    pool.with(&:use)
    assert_raises(Timeout::Error) { pool.with { flunk } }
    strike = false
    pool.with(&:use)
    assert_equal [1, 0], made.map(&:closed_count)
    assert_at_rest(pool, made)
  end

  everywhere "discard_replaces_the_connection_after_the_block" do
    pool, made = pool_and_made(size: 1)
    pool.with do |connection|
      assert_same pool, pool.discard
      assert_same(connection, pool.with(&:itself))
      refute_predicate connection, :closed?
    end
    assert_predicate made.first, :closed?
    assert_equal 1, pool.with(&:id)
    assert_at_rest(pool, made)
    assert_raises(FiberError) { pool.discard }
  end

  everywhere "reload_closes_idle_ones_now_and_used_ones_later" do
    pool, made = pool_and_made(size: 2)
    fill(pool, 2)
    pool.with do |used|
      assert_same pool, pool.reload
      assert_equal 1, made.count(&:closed?)
      refute_predicate used, :closed?
    end
    assert_equal 2, made.count(&:closed?)
    pool.with(&:use)
    assert_equal 3, made.size
    assert_at_rest(pool, made)
  end

  everywhere "close_refuses_those_who_wait_and_those_who_come" do
    pool, made = pool_and_made(size: 1)
    waiter = nil
    pool.with do
      waiter = start { assert_raises(NB::ClosedError) { pool.with { flunk } } }
      assert(settled { pool.stats[:waiting] == 1 })
      pool.close
      waiter.value
      refute_predicate made.first, :closed?
    end
    assert_predicate made.first, :closed?
    assert_predicate pool, :closed?
    assert_raises(NB::ClosedError) { pool.with { flunk } }
    assert_at_rest(pool, made)
  end

  everywhere "close_takes_what_closes_a_connection" do
    closed = []
    pool = NB::ConnectionPool.new(size: 1, close: ->(one) { closed << one }) { :connection }
    pool.with { 1 }
    pool.close
    assert_equal [:connection], closed
    pool = NB::ConnectionPool.new(size: 1) { :it_has_no_close }
    pool.with { 1 }
    pool.close
  end

  everywhere "an_error_in_the_block_gives_the_connection_back" do
    pool, made = pool_and_made(size: 1)
    assert_raises(KeyError) { pool.with { raise KeyError } }
    assert_equal(7, pool.with { break 7 })
    assert_equal(8, catch(:out) { pool.with { throw :out, 8 } })
    assert_equal 1, made.size
    assert_at_rest(pool, made)
  end

  everywhere "a_forked_child_begins_empty_and_leaves_the_parents_alone" do
    abandoned = []
    pool, made = pool_and_made(size: 2, abandon: ->(connection) { abandoned << connection.id })
    fill(pool, 2)
    reader, writer = IO.pipe
    pool.with do |mine|
      NB::ForkedWorker.run do
        ids = Array.new(2) { pool.with(&:id) }
        nested = pool.with { |connection| pool.with(&:itself).equal?(connection) }
        writer.write(Marshal.dump([ids, nested, made.map(&:closed_count), abandoned.sort,
                                   pool.stats.slice(:in_use, :idle), mine.id]))
        nil
      end
      writer.close
      ids, nested, closed, left, stats, held = Marshal.load(reader.read)
      assert_equal [2, 2], ids, "it used a connection of its parent"
      assert nested
      assert_equal [0, 0, 0], closed
      assert_equal [0, 1], left
      assert_equal({ in_use: 0, idle: 1 }, stats)
      assert_equal mine.id, held
    end
    reader.close
    assert_equal 2, made.size
    assert_at_rest(pool, made)
  end

  # A signal's handler raises wherever a call returns, past any mask.
  def test_a_handler_at_any_return_loses_no_connection
    [0, 1].each do |idle|
      nth = 0
      struck = true
      while struck
        pool, = pool_and_made(size: 1)
        fill(pool, idle)
        struck = strike_at_return?(nth += 1) { pool.with(&:itself) }
        assert_equal 0, pool.stats[:in_use], "after return #{nth}"
        assert pool.with(timeout: 0, &:itself)
      end
      assert_operator nth, :>, 20
    end
  end

  def test_a_fork_within_with_gives_the_child_its_own_connection
    pool, made = pool_and_made(size: 1)
    status = pool.with do |mine|
      pid = fork do
        exit!(pool.with { |other| !other.equal?(mine) && pool.stats[:in_use] == 1 } ? 3 : 4)
      end
      Process::Status.wait(pid)
    end
    assert_equal 3, status.exitstatus
    pid = pool.with { fork } # the child leaves the block in which it was born
    exit!(pool.with(&:id) == 1 && pool.stats[:idle] == 1 ? 5 : 6) unless pid
    assert_equal 5, Process::Status.wait(pid).exitstatus
    assert_at_rest(pool, made)
  end

  def test_a_child_that_leaves_a_block_by_an_exception_leaves_the_parents_connection_alone
    told = []
    pool, made = pool_and_made(size: 1, tidy: ->(one) { told << one.id },
                               abandon: ->(one) { told << one })
    parent = Process.pid
    pid = nil
    begin
      pool.with do
        pid = fork
        raise "in the child" if Process.pid != parent
      end
    rescue RuntimeError
      exit!(told == [made[0]] && !made[0].closed? ? 5 : 6)
    end
    assert_equal 5, Process::Status.wait(pid).exitstatus
    assert_at_rest(pool, made)
  end

  def test_wrong_arguments_are_refused
    { size: 0, timeout: -1, alive: 5, close: 5, abandon: 5 }.each do |name, value|
      options = { size: 1, name => value }
      error = assert_raises(ArgumentError) { NB::ConnectionPool.new(**options) { 1 } }
      assert_match(/#{name}: .*#{value}/, error.message)
    end
    assert_raises(ArgumentError) { NB::ConnectionPool.new(size: "x") { 1 } }
    assert_raises(ArgumentError) { NB::ConnectionPool.new(size: 1) }
    assert_match(/#<NB::ConnectionPool size=1 in_use=0 idle=0 waiting=0>/,
                 NB::ConnectionPool.new(size: 1) { 1 }.inspect)
  end

  private

  # Raises as the nth call from the pool's files returns. Integer#== is no call, unless traced.
  def strike_at_return?(nth)
    struck = Class.new(StandardError)
    trace = TracePoint.new(:return, :b_return, :c_return) do |event|
      next if !event.path.include?("neverblock/sync/") || event.method_id == :==
      next unless (nth -= 1).zero?

      trace.disable
      raise struck
    end
    trace.enable(target_thread: Thread.current) { yield }
    false
  rescue struck
    true
  end
end

# frozen_string_literal: true

require_relative "support"
require "json"
require "neverblock"

# What {NB.pools} and `nb_pool_…` tell of pools: who holds, who waits, for how long, and what was
# waited for.
class PoolsTest < Minitest::Test
  include SyncSupport

  # Short enough for a label.
  def label = name[-50..] || name
  def pool(**options) = NB::ConnectionPool.new(name: label, **options) { Object.new }
  def counted(what) = NB::Pools.counts.fetch(what).fetch(label)

  # Not by NB.pools, in which those of other tests may take all the room.
  def row(scheduler = Fiber.scheduler)
    accounts = NB::Pools.accounts.select { |one| one.name == label }
    NB::PoolListing.new(accounts, scheduler).rows.first
  end

  # Gives the pool's place and the fiber that holds it, until the block has ended.
  def held(pool, name: "holder")
    gate = Thread::Queue.new
    task = NB.async(name: name) { pool.with { gate.pop } }
    yield task
  ensure
    gate.close
    task.wait
  end

  scheduled "who_holds_and_who_waits", others: false do
    pool = pool(size: 1)
    held(pool) do |holder|
      waiter = NB.async(name: "waiter") { pool.with { sleep(0.01) } }
      sleep(0.05)
      found = row
      assert_equal [1, 1, 0, 1], found.values_at(:size, :in_use, :idle, :waiting)
      assert_equal [[holder.fiber.object_id, holder.name]], who(found[:holders])
      assert_equal [[waiter.fiber.object_id, waiter.name]], who(found[:waiters])
      assert_match(/\A#{__FILE__}:#{line_of("pool.with { gate.pop }")}:in /,
        found[:holders].first[:place])
      assert_match(/\A#{__FILE__}:#{line_of("pool.with { sleep(0.01) }")}:in /,
        found[:waiters].first[:place])
      assert_includes 0.005..20, found[:holders].first[:held_seconds]
      assert_includes 0.005..20, found[:waiters].first[:waited_seconds]
    end
    settled { row[:in_use].zero? }
    assert_equal [0, 1, 0, 1, 0],
      row.values_at(:in_use, :idle, :waiting, :waits_total, :timeouts_total)
    assert_operator row[:wait_seconds_total], :>=, 0.05
    assert_empty row[:holders] + row[:waiters]
  end

  def who(rows) = rows.map { |one| one.values_at(:fiber, :name) }

  def line_of(code)
    File.readlines(__FILE__).index { |line| line.include?(code) && !line.include?("line_of(") } + 1
  end

  # He has waited for it, so his time begins when he got it; that of the other when he was seen.
  scheduled "how_long_is_known_after_a_wait", others: false, clock: :virtual do
    pool = pool(size: 1)
    first = NB.async { pool.with { sleep 2 } }
    second = NB.async { pool.with { 5.times { sleep 1 } } }
    sleep 1.5
    assert_in_delta 1.5, row[:holders].first[:held_seconds], 0.01
    first.wait
    sleep 3.5
    assert_in_delta 3.5, row[:holders].first[:held_seconds], 0.01
    second.wait
    assert_in_delta 2, row[:wait_seconds_total], 0.01
  end

  # Nobody had to wait, so no start was recorded; the holder's present wait tells how long.
  scheduled "at_least_since_the_holder_waits_or_was_seen", others: false, clock: :virtual do
    pool = pool(size: 1)
    task = NB.async { pool.with { 10.times { sleep 1 } } }
    sleep 3.5
    assert_in_delta 0.5, row[:holders].first[:held_seconds], 0.01
    sleep 4
    assert_in_delta 4.5, row[:holders].first[:held_seconds], 0.01
    task.cancel.wait
  end

  # Who comes later than the first who waits stands behind him.
  scheduled "at_least_as_long_as_the_first_waits", others: false, clock: :virtual do
    pool = pool(size: 1, timeout: 20)
    tasks = [NB.async { pool.with { 10.times { sleep 1 } } }, NB.async { pool.with { nil } }]
    sleep 6.5
    assert_in_delta 6.5, row[:holders].first[:held_seconds], 0.01
    tasks.each(&:wait)
  end

  scheduled "a_timeout_counts_as_a_wait_too", others: false do
    pool = pool(size: 1)
    held(pool) do
      assert_raises(NB::PoolTimeoutError) { pool.with(timeout: 0.01) { flunk } }
    end
    assert_equal [1, 1], row.values_at(:waits_total, :timeouts_total)
    assert_equal [1, 1], %i[waits timeouts].map { |what| counted(what) }
  end

  scheduled "blocks_that_wait_for_a_fiber", others: false do
    pool = NB::FiberPool.new(1, name: label)
    gate = Thread::Queue.new
    2.times { pool.spawn { gate.pop } }
    sleep(0.02)
    found = row
    assert_equal ["NB::FiberPool", 1, 1, 0, 1],
      found.values_at(:kind, :size, :in_use, :idle, :waiting)
    assert_equal 1, found[:holders].size
    assert_match(/\A#{__FILE__}:\d+\z/o, found[:waiters].first[:place])
    assert_operator found[:waiters].first[:waited_seconds], :>=, 0.02
    gate.close
    pool.wait
    assert_equal [0, 1, 0, 1], row.values_at(:in_use, :idle, :waiting, :waits_total)
    assert_empty row[:holders], "a fiber that rests holds nothing"
  ensure
    gate.close
    pool.close
  end

  scheduled "processes_of_a_pool", others: false do
    pool = NB::ProcessPool.new(size: 1, name: label) { |seconds| sleep(seconds) }
    tasks = Array.new(2) { NB.async { pool.call(0.05) } }
    settled { row[:in_use] == 1 && row[:waiting] == 1 }
    assert_equal "NB::ProcessPool", row[:kind]
    tasks.each(&:wait)
    assert_equal 1, row[:waits_total]
  ensure
    pool.close
  end

  scheduled "other_threads_may_ask", others: false do
    pool = pool(size: 1)
    held(pool) do
      scheduler = Fiber.scheduler
      found = Thread.new { row(scheduler) }.value
      assert_equal 1, found[:holders].size
      assert_match(/#{__FILE__}/, found[:holders].first[:place])
    end
  end

  scheduled "the_child_of_a_fork_has_nothing_of_it", others: false do
    pool = pool(size: 1)
    held(pool) do
      assert_raises(NB::PoolTimeoutError) { pool.with(timeout: 0) { flunk } }
      told = in_child { [row, NB::Pools.counts.transform_values { |all| all[label] }, pool.stats] }
      assert_equal [0, 0, 0, 0, 0.0, 0], told[0].values_at(:in_use, :idle, :waiting, :waits_total,
        :wait_seconds_total, :timeouts_total)
      assert_empty told[0][:holders] + told[0][:waiters]
      assert_equal({size: 1, in_use: 0, idle: 0, waiting: 0, waits: 0, wait_seconds: 0.0,
                    timeouts: 0}, told[1])
      assert_equal 0, told[2][:in_use]
      assert_equal 1, row[:timeouts_total], "the parent has forgotten"
    end
  end

  def in_child
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      writer.write(Marshal.dump(yield))
      writer.close
      exit!
    end
    writer.close
    Marshal.load(reader.read) # rubocop:disable Security/MarshalLoad -- our own child's
  ensure
    reader.close
    Process.wait(pid)
  end

  def test_a_pool_without_a_name_is_called_by_its_line
    pool = NB::ConnectionPool.new(size: 1) { Object.new }
    line = __LINE__ - 1
    assert_equal "test/sync/pools_test.rb:#{line}", pool.name.delete_prefix("#{Dir.pwd}/")
    assert_match(/pools_test\.rb:#{line + 3}\z/, NB::FiberPool.new.name)
    assert_match(/pools_test\.rb:#{line_of("def processes")}\z/, processes.name)
    assert_equal "localhost:81", NB::HTTP.persistent("http://localhost:81")
                                         .instance_variable_get(:@pool).name
  end

  def processes = NB::ProcessPool.new { nil }.instance_variable_get(:@pool)

  # The list is bounded; what waits comes first.
  scheduled "of_many_pools_those_come_first_in_which_something_waits", others: false do
    kept = Array.new(60) { pool(size: 1) }
    last = NB::ConnectionPool.new(size: 1, name: "the last", timeout: nil) { Object.new }
    held(last) do
      waiters = Array.new(30) { NB.async { last.with { nil } } }
      assert_equal 50, NB.pools.size
      assert_equal "the last", NB.pools.first[:name]
      assert_equal [30, 20], [NB.pools.first[:waiting], NB.pools.first[:waiters].size]
      assert_equal 60, counted(:size), kept.size
      waiters.each(&:cancel)
    end
  end

  # A total must not fall when its pool is collected, and one that is collected is not listed.
  def test_what_a_pool_counted_outlives_it
    Thread.new { NB.run { time_out } }.join
    settled { GC.start || row.nil? }
    assert_nil row, "the registry keeps it"
    assert_equal 1, counted(:timeouts)
    refute NB::Pools.counts.fetch(:size).key?(label)
  end

  def time_out
    held(pool(size: 1)) do
      NB::Pools.accounts.each do |account|
        assert_raises(NB::PoolTimeoutError) { the_pool.with(timeout: 0) { nil } } if
          account.name == label
      end
    end
  end

  def the_pool = ObjectSpace.each_object(NB::ConnectionPool).find { |one| one.name == label }

  # Names that a program makes up are one in /metrics, beyond so many.
  def test_names_without_end_are_one
    told = in_child do
      kept = Array.new(NB::Pools::NAMES * 2) { |i| NB::ConnectionPool.new(size: 1, name: "x#{i}") {} }
      [NB::Pools.counts[:waits].size, NB::Pools.counts[:size]["other"], kept.size]
    end
    assert_equal NB::Pools::NAMES + 1, told[0]
    assert_operator told[1], :>=, NB::Pools::NAMES
  end

  # A library that cannot tell ends nothing, and is named once.
  def test_a_source_that_fails_hides_nothing
    pool = pool(size: 1)
    told = in_child do
      NB::Pools.source { raise "no such state" }
      text = captured_stderr { 2.times { NB.pools } }
      [text, row.nil?, pool.size]
    end
    assert_equal "neverblock: cannot list pools: RuntimeError: no such state\n", told.first
    refute told[1]
  end
end

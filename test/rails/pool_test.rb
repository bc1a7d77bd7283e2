# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"
require "support/timing"

# A thousand fibers on 12 connections, and what must hold when they are interrupted.
class RailsPoolTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  def setup
    Account.delete_all
    Account.create!(id: 1, balance: 100)
  end

  def teardown
    stat = pool.stat
    assert_equal [0, 0, 0], stat.values_at(:busy, :dead, :waiting), stat
    assert_operator stat[:connections], :<=, 12
  end

  def pool = Account.connection_pool
  def select(sql) = Account.with_connection { |connection| connection.select_value(sql) }

  def test_a_thousand_fibers_on_twelve_connections
    before = waits
    ticker = Ticker.new
    NB.run do
      ticking = NB.async { ticker.run }
      answers = NB.map(1..1000, concurrency: 1000) { |i| select("SELECT #{i} FROM pg_sleep(0.005)") }
      assert_equal (1..1000).to_a, answers
      ticker.stop
      ticking.wait
    end
    after = waits
    assert_operator after[:waits] - before[:waits], :>=, 900
    assert_operator after[:longest_wait_seconds], :>, 0.1
    assert_equal before[:timeouts], after[:timeouts]
    assert_in_time ticker.stillest.still, 0.05, ticker.stillest.to_s
  end

  def test_connections_are_handed_over_in_order
    order = []
    NB.run do
      gate = Thread::Queue.new
      held = Array.new(12) { NB.async { Account.with_connection { gate.pop } } }
      NB.async do # when all stand in line
        sleep(0.001) until Account.connection_pool.stat[:waiting] == 100
        held.size.times { gate << true }
      end
      NB.map(1..100, concurrency: 100) do |i|
        Account.with_connection do |connection|
          order << i
          connection.select_value("SELECT 1 FROM pg_sleep(#{rand * 0.005})")
        end
      end
    end
    assert_equal (1..100).to_a, order
  end

  def test_a_waiter_who_is_cancelled_passes_the_connection_on
    NB.run do
      gate = Thread::Queue.new
      held = Array.new(12) { NB.async { Account.with_connection { gate.pop } } }
      first = NB.async { select("SELECT 1") }
      second = NB.async { select("SELECT 2") }
      sleep(0.001) until pool.stat[:waiting] == 2
      gate.push(true) # a connection comes back, for the first …
      first.cancel # … who does not want it any more
      assert_equal 2, NB.timeout(20) { second.value }
      gate.close
      held.each(&:wait)
    end
  end

  # Without being told, they would wait for checkout_timeout.
  def test_waiters_are_told_when_a_connection_could_not_be_opened
    pool.disconnect!
    refusing = Array.new(12) { Thread::Queue.new }
    gates = refusing.dup
    pool.define_singleton_method(:new_connection) do |*arguments|
      gate = gates.shift or next super(*arguments)
      gate.pop
      raise ActiveRecord::ConnectionNotEstablished, "refused"
    end
    NB.run do
      failing = Array.new(12) { NB.async { assert_raises(ActiveRecord::ConnectionNotEstablished) { select("SELECT 1") } } }
      waiting = Array.new(3) { |i| NB.async { select("SELECT #{i}") } }
      assert_equal [0, 3], pool.stat.values_at(:connections, :waiting)
      refusing.shift.close
      assert_equal [0, 1, 2], NB.timeout(20) { waiting.map(&:value) }
      refusing.each(&:close)
      failing.each(&:wait)
    end
  ensure
    pool.singleton_class.remove_method(:new_connection)
  end

  # As the tests of Rails want it from its own line, for threads.
  def test_who_wants_all_connections_goes_first
    order = []
    NB.run do
      gate = Thread::Queue.new
      held = Array.new(12) { NB.async { Account.with_connection { gate.pop } } }
      one = NB.async { select("SELECT 1") && order << :one }
      all = NB.async do
        pool.clear_reloadable_connections
        order << :all
      end
      sleep(0.001) until pool.stat[:waiting] == 2
      gate.close
      [*held, one, all].each(&:value)
    end
    assert_equal %i[all one], order
  end

  def test_who_waits_while_the_pool_is_disconnected_has_one_connection
    NB.run do
      gate = Thread::Queue.new
      held = Array.new(12) { NB.async { Account.with_connection { gate.pop } } }
      sleep(0.001) until pool.stat[:busy] == 12
      undone = NB.async { Account.transaction { Account.create!(id: 2, balance: 1) && raise(ActiveRecord::Rollback) } }
      sleep(0.001) until pool.stat[:waiting] == 1
      all = NB.async { pool.disconnect }
      sleep(0.001) until pool.stat[:waiting] == 2
      gate.close
      NB.timeout(20) { [*held, all, undone].each(&:value) }
    end
    assert_equal [1], Account.ids
  end

  # As in Rails, whose checkout_timeout is 5 s.
  def test_who_wants_all_connections_gives_up_after_ten_seconds
    NB.run do
      kept = NB.async { Account.with_connection { |connection| sleep(100) && connection } }
      sleep(0.001) until pool.stat[:busy] == 1
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      Timeout.timeout(20) { pool.disconnect! }
      assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, :>=, 9.9
      assert_equal 1, select("SELECT 1")
    ensure
      kept&.cancel
    end
  end

  def test_who_wanted_all_connections_is_not_preferred_afterwards
    queue = pool.instance_variable_get(:@available)
    order = []
    NB.run do
      ends, goes_on, gate = Array.new(3) { Thread::Queue.new }
      biased = NB.async do
        queue.with_a_bias_for(ActiveSupport::IsolatedExecutionState.context) { ends.pop }
        goes_on.pop || (select("SELECT 1") && order << :biased)
      end
      other = NB.async { queue.with_a_bias_for(ActiveSupport::IsolatedExecutionState.context) { ends.pop } }
      ends << true # the one that began first ends first
      sleep(0.001) until goes_on.num_waiting.positive?
      ends << true
      other.wait
      held = Array.new(12) { NB.async { Account.with_connection { gate.pop } } }
      one = NB.async { select("SELECT 1") && order << :one }
      goes_on.close
      sleep(0.001) until pool.stat[:waiting] == 2
      gate << true
      [one, biased].each(&:value)
      gate.close
      held.each(&:wait)
    end
    assert_equal %i[one biased], order
  end

  # Ways to use a model for the first time, whose columns Rails then asks for, under a lock.
  FIRST_USES = { "query" => ->(model) { model.find_by(balance: 100) }, "columns" => ->(model) { model.column_names } }.freeze

  FIRST_USES.each do |name, use|
    define_method("test_who_loads_a_model_does_not_wait_for_those_who_wait_for_it_#{name}") do
      model = Class.new(ApplicationRecord) { self.table_name = "accounts" }
      pool.schema_cache.clear_data_source_cache!("accounts")
      NB.run do
        gate = Thread::Queue.new
        held = Array.new(12) { NB.async { Account.with_connection { gate.pop || use.call(model) } } }
        first = NB.async { use.call(model) }
        sleep(0.001) until pool.stat[:waiting] == 1
        gate.close
        NB.timeout(20) { [*held, first].each(&:value) }
      end
    end
  end

  def test_a_timeout_while_waiting_leaves_the_line
    NB.run do
      held = Array.new(12) { NB.async { Account.with_connection { sleep } } }
      sleep(0.01)
      50.times.map { NB.async { assert_raises(Timeout::Error) { NB.timeout(0.02) { select("SELECT 1") } } } }
        .each(&:wait)
      assert_equal 0, pool.stat[:waiting]
      held.each(&:cancel).each(&:wait)
    end
  end

  def test_the_checkout_timeout_says_who_holds_the_connections
    before = pool.checkout_timeout
    pool.checkout_timeout = 0.05
    error = NB.run do
      held = Array.new(12) { NB.async { Account.with_connection { sleep } } }
      raised = assert_raises(ActiveRecord::ConnectionTimeoutError) { select("SELECT 1") }
      held.each(&:cancel).each(&:wait)
      raised
    end
    assert_match(/within 0.050 seconds \(waited 0.0.+connections:/m, error.message)
    assert_match(/pool_test\.rb:\d+.+\(12 times\)/, error.message)
  ensure
    pool.checkout_timeout = before
  end

  def test_who_pins_a_connection_is_logged_once_with_the_cure
    log = StringIO.new
    logger, Rails.logger = Rails.logger, ActiveSupport::Logger.new(log)
    told = -> { log.string.scan(/^.*NeverBlock: a fiber holds.+$/) }
    NB.run do
      held = Array.new(11) { NB.async { Account.lease_connection && pin } }
      held << NB.async { Account.transaction { Account.count && pin_in_transaction } }
      waiting = Array.new(3) { NB.async { select("SELECT 1") } }
      NB.timeout(60) { sleep(0.01) until told.call.size > 1 }
      sleep(1.2) # another look is taken each second
      held.each(&:cancel).each(&:wait)
      waiting.each(&:wait)
    end
    warnings = told.call
    assert_equal 2, warnings.size, log.string
    assert warnings.one?(/Use `with_connection/)
    assert warnings.one?(/out of the transaction/)
    assert_match(/pool_test\.rb:\d+:in .*pin/, log.string)
  ensure
    Rails.logger = logger
  end

  # A log that waits, as one to a pipe that nobody reads.
  class SlowLogger < ActiveSupport::Logger
    attr_reader :gate

    def initialize = super(@log = StringIO.new) && @gate = Thread::Queue.new
    def warn(*) = @gate.pop
  end

  def test_who_logs_does_not_hold_the_pool
    logger, Rails.logger = Rails.logger, SlowLogger.new
    NB.run do
      held = Array.new(12) { NB.async { Account.with_connection { pin_beside_the_log } } }
      waiting = NB.async { select("SELECT 1") }
      sleep(0.001) until Rails.logger.gate.num_waiting.positive?
      assert_equal 1, NB.timeout(20) { pool.stat[:waiting] }
      held.each(&:cancel).each(&:wait)
      assert_equal 1, NB.timeout(20) { waiting.value }
    ensure
      Rails.logger.gate.close
    end
  ensure
    Rails.logger = logger
  end

  # Rails logs a query while it still has the connection.
  def test_who_waits_for_the_lock_of_a_log_is_not_logged
    log = StringIO.new
    logger, Rails.logger = Rails.logger, ActiveSupport::Logger.new(log)
    gate = Thread::Queue.new
    device = Struct.new(:gate) { def write(*) = gate.pop; def close = nil }
    other = Logger.new(device.new(gate))
    NB.run do
      tasks = [NB.async { other.info("first") }]
      tasks += Array.new(12) { NB.async { Account.with_connection { other.info("next") } } }
      sleep(0.001) until pool.stat[:busy] == 12
      NB::Rails::PinnedConnection.look(pool)
      gate.close
      tasks.each(&:wait)
    end
    refute_includes log.string, "NeverBlock"
  ensure
    Rails.logger = logger
  end

  def pin_beside_the_log = sleep

  def pin
    sleep
  ensure
    pool.release_connection
  end

  def pin_in_transaction = sleep

  # On a busy machine it is late, and meets code that computes.
  %i[stand_in_line remove].each do |step|
    define_method("test_a_timeout_that_strikes_in_#{step}_loses_neither_count_nor_connection") do
      queue = pool.instance_variable_get(:@available)
      NB.run do
        gate = Thread::Queue.new
        held = Array.new(12) { NB.async { Account.with_connection { gate.pop } } }
        queue.define_singleton_method(step) { |*all| super(*all).tap { 200_000_000.times { nil } } }
        late = NB.async { Timeout.timeout(0.1) { select("SELECT 1") } }
        gate.push(true)
        assert_raises(Timeout::Error) { late.value }
        queue.singleton_class.remove_method(step)
        gate.close
        NB.timeout(20) { NB.map(1..12, concurrency: 12) { select("SELECT pg_sleep(0.05)") } }
        held.each(&:wait)
      end
      assert_equal 12, queue.instance_variable_get(:@queue).size
    end
  end

  # The pool's lock is held while a connection is made ready for who wants them all, for instance.
  def test_a_timeout_while_a_connection_is_returned_loses_none
    NB.run do
      gate = Thread::Queue.new
      NB.async { sleep(0.2) && gate.close }
      assert_raises(Timeout::Error) do
        NB.timeout(0.05) do
          Account.with_connection { Fiber.schedule { pool.synchronize { gate.pop } } }
        end
      end
      assert_equal [0, false], [pool.stat[:busy], pool.active_connection? ? true : false]
    end
  end

  def test_a_timeout_in_a_transaction_rolls_back
    NB.run do
      assert_raises(Timeout::Error) do
        NB.timeout(0.05) do
          Account.transaction do
            Account.where(id: 1).update_all(balance: 1)
            select("SELECT 1 FROM pg_sleep(60)")
          end
        end
      end
      assert_equal 100, NB.timeout(20) { Account.find(1).balance }
    end
  end

  def test_a_cancel_in_a_transaction_rolls_back
    NB.run do
      [-> { sleep }, -> { select("SELECT 1 FROM pg_sleep(60)") }].each do |wait|
        task = NB.async do
          Account.transaction do
            Account.where(id: 1).update_all(balance: 1)
            wait.call
          end
        end
        sleep(0.05)
        task.cancel.wait
        assert_equal 100, NB.timeout(20) { Account.find(1).balance }
      end
    end
  end

  # Outside of a transaction nobody rolls back, and the query would go on.
  def test_the_query_of_who_was_interrupted_is_cancelled_for_the_next
    NB.run do
      tasks = Array.new(12) { NB.async { select("SELECT 1 FROM pg_sleep(30)") } }
      sleep(0.1)
      tasks.each(&:cancel).each(&:wait)
      assert_equal((1..24).to_a, NB.timeout(20) { NB.map(1..24, concurrency: 24) { |i| select("SELECT #{i}") } })
    end
  end

  def test_the_query_cache_belongs_to_the_fiber
    NB.run do
      sizes = NB.map(1..20, concurrency: 20) do |i|
        Account.cache do
          3.times { Account.where(balance: i).count }
          sleep(0.01)
          pool.query_cache.size
        end
      end
      assert_equal [1] * 20, sizes
    end
  end

  # Far more statements than fibers and connections, so that they are made and dropped all the time.
  def test_prepared_statements_do_not_mix
    limit = 1000
    NB.run do
      answers = NB.map(1..limit, concurrency: 200) do |i|
        columns = (1..(i % 7) + 1).map { |n| "$1::int + #{n}" }.join(", ")
        bind = ActiveRecord::Relation::QueryAttribute.new("x", i, ActiveRecord::Type::Integer.new)
        Account.with_connection { |c| c.exec_query("SELECT #{columns}", "SQL", [bind], prepare: true).rows[0] }
      end
      expected = (1..limit).map { |i| (1..(i % 7) + 1).map { |n| i + n } }
      assert_equal expected, answers
    end
  end

  private

  def waits = NB::Rails::PoolWaits.all.find { |one| one[:name] == "primary" }
end
# rubocop:enable Layout/LineLength

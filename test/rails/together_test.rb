# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"
require_relative "../support/clock"
require_relative "../support/leaks"
require_relative "../support/timing"

# More from one request: queries, calls and jobs in fibers beside it.
class RailsTogetherTest < Minitest::Test
  include Clock

  RailsApp.load("neverblock_postgresql")

  # Accounts by one single connection.
  class One < ActiveRecord::Base
    self.table_name = "accounts"
    establish_connection(Account.connection_db_config.configuration_hash.merge(max_connections: 1, pool: 1))
  end

  def setup
    Account.delete_all
    Account.insert_all!((1..5).map { |id| { id: id, balance: id } })
  end

  def teardown
    assert_equal [0, 0], Account.connection_pool.stat.values_at(:busy, :dead)
  end

  # Five queries of 0.2 s, in the time of one, and no thread for them.
  def test_load_async
    threads = Leaks.threads.size
    took = seconds do
      NB.run do
        Rails.application.executor.wrap do
          loading = (1..5).map { |id| Account.where("id = ? AND pg_sleep(0.2) IS NOT NULL", id).load_async }
          assert_equal (1..5).to_a, loading.map { |accounts| accounts.first.balance }
        end
      end
    end
    assert_in_time took, 0.8
    assert_operator Leaks.threads.size, :<=, threads
  end

  # By itself Rails then takes the relation for loaded, and for empty.
  def test_load_async_whose_result_did_not_come
    slow = Account.where("pg_sleep(0.04) IS NOT NULL")
    in_request do
      loading = slow.load_async
      interrupted { loading.to_a }
      assert_equal 5, loading.to_a.size
      failing = Account.where("1 / (balance - 5) > 0").load_async
      2.times { assert_raises(ActiveRecord::StatementInvalid) { failing.to_a } }
    end
  end

  # The second one finds no records yet, and must not take them for empty, or for nil.
  def test_a_relation_of_load_async_that_two_fibers_use
    in_request do
      loading = Account.where("pg_sleep(0.04) IS NOT NULL").load_async
      assert_equal [5, 5], NB.gather(*[-> { loading.to_a.size }] * 2)
    end
  end

  # The fiber has the only connection, so it runs the query itself.
  def test_an_async_count_that_is_interrupted
    in_request do
      One.with_connection do
        counting = One.where("pg_sleep(0.04) IS NOT NULL").async_count
        interrupted { counting.value }
        assert_equal 5, counting.value
      end
    end
  end

  # As Rails has it where no threads are configured: each query runs at once.
  def test_async_queries_outside_of_a_loop
    queries = []
    note = ->(_, _, _, _, query) { queries << query[:async] }
    ActiveSupport::Notifications.subscribed(note, "sql.active_record") do
      Rails.application.executor.wrap { assert_equal [5, 5], [Account.all.load_async.size, Account.async_count.value] }
    end
    assert_equal [false] * 2, queries.map { |async| async || false }
  end

  # There they see what the transaction has written.
  def test_async_queries_in_a_transaction
    [method(:yield_to), NB.method(:run)].each do |enter|
      enter.call do
        Account.transaction do
          Account.create!(id: 6, balance: 6)
          assert_equal [6, 6, 21], [Account.async_count.value, Account.all.load_async.size, Account.async_sum(:balance).value]
          raise ActiveRecord::Rollback
        end
      end
    end
  end

  def yield_to = yield

  # It is asked for what it has done, also where fibers have the queries.
  def test_the_executor_is_that_of_rails
    reconnect(:global_thread_pool)
    executor = Account.connection_pool.async_executor
    counts = -> { [executor.class, executor.scheduled_task_count, executor.completed_task_count] }
    pool, scheduled, completed = counts.call
    NB.run do
      Rails.application.executor.wrap do
        accounts = Account.all.load_async
        assert_equal scheduled + 1, executor.scheduled_task_count
        assert_equal 5, accounts.to_a.size
      end
    end
    assert_equal [pool, scheduled + 1, completed + 1], counts.call
    assert_equal Concurrent::ThreadPoolExecutor, pool
  ensure
    reconnect(nil)
  end

  # As on Rails' threads, which drop the error.
  def test_a_query_that_gets_no_connection_is_run_by_who_asks_for_its_result
    [nil, :global_thread_pool].each do |executor|
      reconnect(executor)
      assert_silent do
        NB.run do
          Rails.application.executor.wrap do
            Account.lease_connection
            Account.connection_pool.define_singleton_method(:checkout) { |*| raise ActiveRecord::ConnectionTimeoutError, "none" }
            accounts = Account.all.load_async
            sleep(0.001)
            assert_equal 5, accounts.to_a.size
          end
        end
      end
    end
  ensure
    reconnect(nil)
  end

  def reconnect(executor)
    ActiveRecord.async_query_executor = executor
    ActiveRecord::Base.remove_connection
    ActiveRecord::Base.establish_connection
  end

  # They see what the request sees, change only their own, and give their connections back.
  def test_gather_inherits_and_gives_back
    NB.run do
      Rails.application.executor.wrap do
        Current.person = "mary"
        I18n.locale = :fr
        Time.use_zone("Tokyo") do
          ActiveRecord::Base.connected_to(role: :reading) do
            seen = NB.map(1..20, concurrency: 20) { |id| look(id) }
            assert_equal [["mary", :fr, "Tokyo", :reading, 5]] * 20, seen
          end
        end
        assert_equal ["mary", :fr], [Current.person, I18n.locale]
        refute Account.connection_pool.active_connection?
      end
    end
  end

  def look(id)
    Account.lease_connection # as code does that keeps its connection
    seen = [Current.person, I18n.locale, Time.zone.name, ActiveRecord::Base.current_role, Account.count]
    Current.person = id
    I18n.locale = :de
    sleep(0.001)
    assert_equal id, Current.person
    seen
  end

  # On a thread of its own, where Rails' own way leaves no state behind with isolation per fiber.
  def test_live_outside_of_a_loop
    body = Time.use_zone("Tokyo") { Rack::MockRequest.new(Rails.application).get("/live").body }
    assert_equal ["Tokyo"] * 3, body.scan(/"zone":"(\w+)"/).flatten
    refute_includes body, %("thread":#{Thread.current.object_id})
  end

  # The page of ActionDispatch::DebugLocks, which knows threads.
  def test_who_holds_the_lock_of_the_code
    page = Rack::MockRequest.new(ActionDispatch::DebugLocks.new(nil))
    shown = NB.run do
      holder = NB.async { ActiveSupport::Dependencies.interlock.running { sleep } }
      page.get("/rails/locks").body.tap { holder.cancel }
    end
    assert_match(/Thread 0 \[0x\h+ sleep\]  Sharing$/, shown)
    assert_includes shown, __FILE__
  end

  def test_jobs_run_in_fibers_of_the_loop
    NB.run do
      NoteJob.perform_later("now")
      NoteJob.set(wait: 0.05.seconds).perform_later("later")
      notes = Array.new(2) { NB.timeout(60) { NoteJob.notes.pop } }
      assert_equal %w[now later], notes.map(&:first)
      assert_equal [Thread.current], notes.map { |note| note[1] }.uniq
      refute_includes notes.map(&:last), Fiber.current
    end
  end

  # With an adapter of its own.
  class SerialJob < ApplicationJob
    LOG = [] # rubocop:disable Style/MutableConstant
    self.queue_adapter = ActiveJob::QueueAdapters::AsyncAdapter.new(max_threads: 1)

    def perform
      LOG << :begins
      sleep(0.002)
      LOG << :ends
    end
  end

  def test_as_many_jobs_run_at_once_as_their_adapter_has_threads
    NB.run do
      NoteJob.perform_later("of another adapter")
      3.times { SerialJob.perform_later }
      NB.timeout(20) { sleep(0.001) until SerialJob::LOG.size == 6 && NoteJob.notes.pop }
    end
    assert_equal %i[begins ends] * 3, SerialJob::LOG
  end

  # Does not wait.
  class OrderJob < ApplicationJob
    class << self
      attr_accessor :order
    end

    def perform = self.class.order << :job
  end

  def test_a_job_begins_after_the_one_who_enqueues_it_waits
    order = []
    OrderJob.order = order
    NB.run do
      3.times do
        OrderJob.perform_later
        order << :enqueued
        sleep(0.001) until order.last == :job
      end
    end
    assert_equal %i[enqueued job] * 3, order
  end

  # As beside threads: what has not run when the program ends is lost.
  def test_the_program_does_not_stay_for_a_job_of_later
    took = seconds { NB.run { NoteJob.set(wait: 1.hour).perform_later("lost") } }
    assert_in_time took, 5
    assert_empty NoteJob.notes
  end

  def test_jobs_outside_of_a_loop_run_on_threads
    NoteJob.perform_later("thread")
    text, thread, = Timeout.timeout(60) { NoteJob.notes.pop }
    assert_equal "thread", text
    refute_equal Thread.current, thread
  end

  private

  def in_request(&request) = NB.run { Rails.application.executor.wrap(&request) }
  def interrupted(&block) = assert_raises(Timeout::Error) { NB.timeout(0.05, &block) }
end
# rubocop:enable Layout/LineLength

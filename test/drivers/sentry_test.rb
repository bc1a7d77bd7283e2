# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "sentry-ruby"
require "tracing/helper"
require "tracing/vendors/sentry_spans"

# What sentry-ruby reports of one request, among others on the same thread.
class SentryTest < Minitest::Test
  include TracingTest

  def setup
    Sentry.init do |config|
      config.dsn = "http://key@127.0.0.1:9/1"
      config.transport.transport_class = Sentry::DummyTransport
      config.background_worker_threads = 0
      config.sdk_logger = Logger.new(nil)
    end
  end

  def events = Sentry.get_current_client.transport.events

  # As its Rack middleware does it.
  def request(id)
    Sentry.clone_hub_to_current_thread
    Sentry.with_scope do
      Sentry.set_user(id: id)
      Sentry.set_tags(number: id)
      sleep(rand * 0.01)
      Sentry.add_breadcrumb(Sentry::Breadcrumb.new(message: id.to_s))
      sleep(rand * 0.01)
      yield
    end
  end

  def seen(event)
    event = event.to_h
    [event[:message], event[:user][:id].to_s, event[:tags][:number].to_s,
     event[:breadcrumbs][:values].map { |crumb| crumb[:message] }]
  end

  def test_requests_report_their_own_user_tags_and_breadcrumbs
    NB.run do
      NB.map(1..200, concurrency: 100) { |id| request(id) { Sentry.capture_message(id.to_s) } }
    end
    assert_equal 200, events.size
    events.map { |one| seen(one) }.each { |id, *rest| assert_equal [id, id, [id]], rest }
  end

  def test_fibers_of_a_request_begin_with_its_scope_and_change_only_their_own
    NB.run do
      request(1) do
        NB.map(2..5, concurrency: 4) do |id|
          Sentry.set_tags(number: id)
          sleep(0.001)
          Sentry.capture_message(id.to_s)
        end
        Enumerator.new { |values| values << Sentry.capture_message("1") }.next
      end
    end
    expected = %w[1 2 3 4 5].map { |id| [id, "1", id, ["1"]] }
    assert_equal expected, events.map { |one| seen(one) }.sort
  end

  def test_the_block_of_a_loop_reports_with_the_scope_of_its_thread
    request(3) do
      NB.run do
        Sentry.capture_message("3")
        NB.gather(-> { Sentry.capture_message("3") && Sentry.set_tags(number: 4) })
      end
      Sentry.capture_message("3")
    end
    assert_equal [["3", "3", "3", ["3"]]] * 3, events.map { |one| seen(one) }
  end

  def test_outside_of_a_loop_it_is_as_before
    request(7) { Sentry.capture_message("7") }
    assert_equal [["7", "7", "7", ["7"]]], events.map { |one| seen(one) }
    assert_empty Sentry.get_current_scope.tags
  end

  def test_threads_and_pools_that_were_there_before
    NB.run do
      pool = NB::FiberPool.new(1)
      pool.spawn { sleep 0.001 }
      NB.offload { sleep 0.001 }
      request(5) do
        NB.offload { Sentry.capture_message("5") }
        pool.spawn { Sentry.capture_message("5") }.wait
      end
      NB.offload { assert_empty Sentry.get_current_scope.user }
      pool.spawn { Thread.current[:user] = Sentry.get_current_scope.user }.wait
    end
    assert_equal [["5", "5", "5", ["5"]]] * 2, events.map { |one| seen(one) }
  end

  # Spans, calls and errors of requests that overlap.
  def test_under_the_server = traced(Tracing::SentrySpans, 40, kinds: Tracing::Work::KINDS.size)
  def test_in_workers = traced(Tracing::SentrySpans, 40, server: "cluster")
  def test_in_puma = traced(Tracing::SentrySpans, 40, server: "puma")
end

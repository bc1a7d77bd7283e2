# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "neverblock"
require "opentelemetry"
require "support/subprocess"
require "tracing/helper"
require "tracing/vendors/opentelemetry_spans"

# The context of a trace, in the fibers of one request and beside those of others.
class OpenTelemetryTest < Minitest::Test
  include TracingTest

  KEY = OpenTelemetry::Context.create_key("request")

  def value = OpenTelemetry::Context.value(KEY)
  def within(value, &block) = OpenTelemetry::Context.with_value(KEY, value, &block)

  def test_what_a_request_starts_belongs_to_its_trace
    seen = NB.run do
      NB.map(1..20, concurrency: 20) do |id|
        within(id) do
          sleep(rand * 0.005)
          inner = NB.gather(-> { sleep(0.001) && value }, -> { NB.async { value }.value })
          [id, value, *inner, *NB.map([1], concurrency: 1) { value }]
        end
      end
    end
    assert_equal((1..20).map { |id| [id] * 5 }, seen)
  end

  def test_what_they_attach_is_theirs
    warnings = StringIO.new
    OpenTelemetry.logger = Logger.new(warnings)
    NB.run do
      within("outer") do
        inner = NB.gather(-> { within("inner") { sleep(0.01) && value } },
                          -> { sleep(0.005) && value })
        assert_equal %w[inner outer outer], [*inner, value]
        task = NB.async { sleep(0.01) && value }
        OpenTelemetry::Context.clear
        assert_equal ["outer", nil], [task.value, value]
      end
    end
    assert_match(/detach/, warnings.string) # what we cleared; no further one
    assert_equal 1, warnings.string.lines.grep(/DetachError|detach/).size
  end

  def test_without_a_context_nothing_is_begun
    NB.run { assert_same OpenTelemetry::Context::ROOT, NB.gather(-> { OpenTelemetry::Context.current }).first }
  end

  # The fiber of an Enumerator has none of its own.
  def test_an_enumerator_goes_on_with_the_context_of_its_reader
    NB.run do
      within("outer") do
        values = Enumerator.new { |to| to << value << within("inner") { to << value && value } << value }
        assert_equal %w[outer inner], [values.next, values.next]
        assert_equal "outer", value # while it stands within its own
        assert_equal %w[inner outer], [values.next, values.next]
      end
      assert_nil Enumerator.new { |to| to << value }.next
    end
  end

  def test_threads_and_pools_that_were_there_before
    NB.run do
      pool = NB::FiberPool.new(1)
      pool.spawn { sleep 0.001 }
      seen = Thread::Queue.new
      within("a") { pool.spawn { seen << value } }
      pool.spawn { seen << value }.wait
      assert_equal ["a", nil], [seen.pop, seen.pop]
      assert_equal(["a", nil], [within("a") { NB.offload { value } }, NB.offload { value }])
      within("a") { assert_nil Thread.new { value }.value } # as without a loop
    end
  end

  def test_a_process_and_a_timer_begin_with_the_context
    NB.run do
      seen = Thread::Queue.new
      within("a") do
        assert_equal "a", NB.in_process { value }
        NB.every(0.001) { seen << value }
      end
      assert_equal "a", seen.pop
    end
  end

  def test_switched_off_it_is_as_before
    script = "require 'opentelemetry'; key = OpenTelemetry::Context.create_key('k'); NB.run { " \
             "OpenTelemetry::Context.with_value(key, 1) { p NB.gather(-> { OpenTelemetry::Context.value(key) }) } }"
    assert_equal "[nil]\n", Subprocess.ruby(script, env: { "NB_DRIVERS" => "-opentelemetry" }).out
    assert_equal "[1]\n", Subprocess.ruby(script).out
  end

  # Spans, calls, queries and errors of requests that overlap.
  def test_under_the_server = traced(Tracing::OpenTelemetrySpans, 40, kinds: Tracing::Work::KINDS.size)
  def test_in_workers = traced(Tracing::OpenTelemetrySpans, 40, server: "cluster")
  def test_in_puma = traced(Tracing::OpenTelemetrySpans, 40, server: "puma")
end
# rubocop:enable Layout/LineLength

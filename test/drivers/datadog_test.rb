# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "neverblock"
require "logger"

begin
  ENV["DD_CRASHTRACKING_ENABLED"] = "false"
  require "datadog"
rescue LoadError
  class DatadogTest < Minitest::Test
    def test_datadog = skip("the gem datadog is not installed: rake tracing:datadog")
  end
  return
end
require "tracing/helper"
require "tracing/vendors/datadog_spans"

# Datadog's agent: the trace of a request, in its fibers and beside those of others.
class DatadogTest < Minitest::Test
  include TracingTest

  # Keeps what is written, instead of sending it.
  class Kept
    attr_reader :spans

    def initialize = @spans = []
    def write(trace) = @spans.concat(trace.spans)
    def stop = nil
  end

  def setup
    @kept = kept = Kept.new
    Datadog.configure do |config|
      config.logger.level = Logger::FATAL
      config.tracing.writer = kept
      config.telemetry.enabled = config.remote.enabled = false
    end
  end

  def span(name, &block) = Datadog::Tracing.trace(name, &block)

  # @return [Hash{String => String, nil}] the name of each span, with that of its parent
  def parents
    names = @kept.spans.to_h { |span| [span.id, span.name] }
    @kept.spans.to_h { |span| [span.name, names[span.parent_id]] }
  end

  def test_fibers_are_in_the_span_that_started_them
    NB.run do
      pool = NB::FiberPool.new(1)
      pool.spawn { sleep 0.001 }
      span("a") do
        NB.gather(-> { span("b") { sleep 0.002 } }, -> { sleep(0.001) && span("c") { sleep 0.002 } })
        NB.offload { span("d") { nil } }
        pool.spawn { span("e") { nil } }.wait
        Thread.new { span("f") { nil } }.join # as without a loop
        NB.async { span("g") { nil } }.wait
        span("h") { nil }
      end
      pool.spawn { span("i") { nil } }.wait
    end
    assert_equal({ "a" => nil, "b" => "a", "c" => "a", "d" => "a", "e" => "a", "f" => nil, "g" => "a", "h" => "a",
                   "i" => nil }, parents)
    assert_equal 3, @kept.spans.map(&:trace_id).uniq.size
  end

  # What it opens is its own, also while it stands in the middle; it follows its reader until then.
  def test_an_enumerator_goes_on_in_the_span_of_its_reader
    ids = nil
    NB.run do
      span("a") do
        values = Enumerator.new do |to|
          to << Datadog::Tracing.active_trace.id
          span("b") { to << Datadog::Tracing.active_trace.id }
          to << span("c") { 1 }
        end
        ids = [Datadog::Tracing.active_trace.id, values.next]
        span("d") { ids << values.next }
        span("e") { values.next }
      end
      assert_nil Enumerator.new { |to| to << Datadog::Tracing.active_trace }.next
    end
    assert_equal 1, ids.uniq.size
    assert_equal({ "a" => nil, "b" => "d", "c" => "e", "d" => "a", "e" => "a" }, parents)
  end

  def test_under_the_server = traced(Tracing::DatadogSpans, 40, kinds: Tracing::Work::KINDS.size)
  def test_in_workers = traced(Tracing::DatadogSpans, 40, server: "cluster")
  def test_in_puma = traced(Tracing::DatadogSpans, 40, server: "puma")
end
# rubocop:enable Layout/LineLength

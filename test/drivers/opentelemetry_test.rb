# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "opentelemetry"

# The context of a trace, in the fibers of one request and beside those of others.
class OpenTelemetryTest < Minitest::Test
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
end

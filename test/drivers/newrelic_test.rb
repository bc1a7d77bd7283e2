# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "neverblock"
require "support/subprocess"
require "tracing/helper"
require "tracing/vendors/newrelic_spans"

# New Relic's agent: the transaction of a request, in its fibers and beside those of others.
class NewRelicTest < Minitest::Test
  include TracingTest

  # Without a collector.
  SETTINGS = { "NEW_RELIC_LICENSE_KEY" => "a" * 40, "NEW_RELIC_MONITOR_MODE" => "false", "NEW_RELIC_LOG" => File::NULL,
               "NEW_RELIC_LOG_LEVEL" => "warn", "NEW_RELIC_AGENT_ENABLED" => "true", "NEW_RELIC_APP_NAME" => "a" }.freeze
  PRELUDE = <<~RUBY
    require "newrelic_rpm"
    NewRelic::Agent.manual_start
    Tracer = NewRelic::Agent::Tracer
    def transaction(name, &block) = Tracer.in_transaction(name: name, category: :web, &block)
    def here = Tracer.current_transaction&.best_name
  RUBY

  def script(text, **env)
    result = Subprocess.ruby(PRELUDE + text, env: SETTINGS.merge(env.transform_keys(&:to_s)))
    assert_predicate result.status, :success?, result.err
    [result.out, result.err]
  end

  def test_what_was_there_before_and_enumerators
    text = <<~RUBY
      NB.run do
        pool = NB::FiberPool.new(1)
        pool.spawn { sleep 0.001 }
        seen = Thread::Queue.new
        transaction("a") do
          pool.spawn { seen << here }.wait
          p [seen.pop, NB.offload { here }, NB.gather(-> { here }).first, Enumerator.new { |to| to << here }.next]
        end
        pool.spawn { seen << here }.wait
        p [seen.pop, NB.offload { here }, Enumerator.new { |to| to << here }.next]
      end
    RUBY
    assert_equal %(["a", "a", "a", "a"]\n[nil, nil, nil]\n), script(text).first
    # Ruby 3.1 makes the loop's fibers by Fiber.new, in front of which the agent stands.
    gathered = RUBY_VERSION < "3.2" ? '"a"' : "nil"
    assert_equal %([nil, nil, #{gathered}, nil]\n[nil, nil, nil]\n), script(text, NB_DRIVERS: "-newrelic_rpm").first
  end

  # It took all of them for one, as they have one thread.
  def test_transactions_at_the_same_time_are_busy_each_by_itself
    text = <<~RUBY
      NB.run { NB.map(1..10, concurrency: 5) { |n| transaction("t") { sleep 0.01 + n * 0.001 } } }
      p NewRelic::Agent::TransactionTimeAggregator.instance_variable_get(:@stats).size > 4
      p NewRelic::Agent::TransactionTimeAggregator.harvest!.between?(0, 1)
    RUBY
    assert_equal ["true\ntrue\n", ""], script(text)
    assert_match(/^false/, script(text, NB_DRIVERS: "-newrelic_rpm").first)
  end

  def test_under_the_server = traced(Tracing::NewRelicSpans, 40, kinds: Tracing::Work::KINDS.size)
  def test_in_workers = traced(Tracing::NewRelicSpans, 40, server: "cluster")
  def test_in_puma = traced(Tracing::NewRelicSpans, 40, server: "puma")
end
# rubocop:enable Layout/LineLength

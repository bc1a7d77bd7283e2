# frozen_string_literal: true

require_relative "samples"
require "json"

# `require "neverblock/rspec"`, with the real RSpec, WebMock and VCR.
class TestingRspecTest < Minitest::Test
  FILE = "test/testing/sample_spec.rb"

  def test_the_samples
    skip "without #{Samples::MISSING.join(", ")}" if Samples::MISSING.any?

    out = Samples.run("-e", 'require "rspec/core"; exit RSpec::Core::Runner.run(ARGV)', FILE,
      "--format", "json")
    examples = JSON.parse(out[/^.*?(\{"version".*\})/m, 1] || flunk(out))["examples"]
    results = examples.to_h { |example| [example["description"], example] }
    assert_equal 17, results.size
    bad = results.reject { |_, example| example["status"] == "passed" }
    assert_equal ["deadlocks", "fails", "fails and leaves a task behind",
                  "has a failing expectation in a task", "has a failing task",
                  "has a failing task before", "is skipped", "leaves a task behind", "raises",
                  "times out"], bad.keys.sort, out
    assert_equal "pending", bad["is skipped"]["status"]
    check_messages(bad.transform_values { |example| example.dig("exception", "message") })
  end

  private

  def check_messages(messages)
    assert_match(/#<NB::Task mailer \S*#{FILE}:\d+ failed> ended with an exception that nobody waited for: IOError \(not delivered\)/, messages["has a failing task"]) # rubocop:disable Layout/LineLength
    assert_match(/#<NB::Task forgotten \S*#{FILE}:\d+ running> was left behind/,
      messages["leaves a task behind"])
    assert_match(/nobody waited for: RSpec::Expectations/,
      messages["has a failing expectation in a task"])
    assert_match(/every fiber waits for another/, messages["deadlocks"])
    refute_match(/earlier/, messages["deadlocks"])
    assert_equal "first", messages["fails and leaves a task behind"]
  end
end

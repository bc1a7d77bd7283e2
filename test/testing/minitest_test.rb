# frozen_string_literal: true

require_relative "samples"

# `require "neverblock/minitest"`, with the real minitest, WebMock and VCR.
class TestingMinitestTest < Minitest::Test
  FILE = "test/testing/sample_minitest.rb"

  def test_the_samples
    skip "without #{Samples::MISSING.join(", ")}" if Samples::MISSING.any?

    out = Samples.run(FILE, "--verbose", "--seed", "1")
    bad = out.scan(/^ +\d+\) (\w+):\n\w+#test_(\w+)/).group_by(&:first)
    failed = { "Failure" => %w[a_task_fails an_assertion_in_a_task_fails fails
                               fails_and_leaves_a_task_behind leaves_a_task_behind
                               leaves_a_task_behind_too],
               "Error" => %w[deadlocks raises times_out], "Skipped" => %w[is_skipped] }
    assert_equal failed, bad.transform_values { |found| found.map(&:last).sort }, out
    assert_match(/^23 runs, /, out)
    check_times(out)
    check_messages(out)
  end

  def test_included_in_all_tests
    out = Samples.run("test/testing/sample_minitest_all.rb")
    assert_match(/^4 runs, 3 assertions, 1 failures, 0 errors, 0 skips$/, out)
    assert_match(/InheritingTest#test_leaves_a_task_behind .*:\n.*was left behind/, out)
  end

  def test_a_test_is_not_told_of_what_failed_before_it
    out = Samples.run("test/testing/sample_minitest_order.rb")
    deadlock = out[/OrderSampleTest#test_2_deadlocks:\n.*\z/m] || flunk(out)
    assert_match(/of this test .* nobody has waited for it/, deadlock)
    refute_match(/earlier/, deadlock)
  end

  def test_included_by_a_module
    out = Samples.run("test/testing/sample_minitest_helpers.rb")
    assert_match(/^1 runs, 1 assertions, 0 failures, 0 errors, 0 skips$/, out)
  end

  private

  # Hours of virtual time are none of the test's.
  def check_times(out)
    times = out.scan(/\b([\d.]+) s = /).flatten.map { |text| Float(text) }
    assert_operator times.max, :<, 60
  end

  def check_messages(out)
    line = File.readlines(FILE).index { |text| text.include?("def test_a_task_fails") } + 1
    assert_match(/#test_a_task_fails \[#{FILE}:#{line}\]:\n#<NB::Task mailer #{FILE}:#{line} failed> ended with an exception that nobody waited for: IOError \(not delivered\)/, out) # rubocop:disable Layout/LineLength
    assert_match(/nobody waited for: Minitest::Assertion \(not so\)/, out)
    line = File.readlines(FILE).index { |text| text.include?("forgotten") } + 1
    assert_match(/#test_leaves_a_task_behind \[#{FILE}:#{line}\]:\n#<NB::Task forgotten #{FILE}:#{line} running> was left behind at the end of the test/, out) # rubocop:disable Layout/LineLength
    assert_equal 2, out.scan("was left behind").size
    assert_match(/every fiber waits for another/, out)
  end
end

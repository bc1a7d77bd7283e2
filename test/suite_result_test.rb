# frozen_string_literal: true

require "minitest/autorun"
require_relative "../rakelib/suite_result"

# What `bin/test` reads in the output of a suite.
class SuiteResultTest < Minitest::Test
  GREEN = "12 runs, 34 assertions, 0 failures, 0 errors, 1 skips\n"
  RED = "12 runs, 34 assertions, 2 failures, 1 errors, 0 skips\n"

  def status(success) = Struct.new(:success?).new(success)

  # @return [Array<Integer>] passed, failed, skipped, activities
  def counts(output, success)
    result = SuiteResult.new(output, success.nil? ? nil : status(success), "3.4")
    [result.passed, result.failed, result.skipped, result.activities]
  end

  def test_what_minitest_and_our_own_programs_say_is_added_up
    assert_equal [11, 0, 1, 0], counts(GREEN, true)
    assert_equal [20, 3, 1, 0], counts(GREEN + RED, false)
    assert_equal [16, 1, 1, 0], counts("#{GREEN}5 passed, 1 failed\n", false)
  end

  # Thousands of them are one test, and a soak that failed is one failure.
  def test_the_activities_of_a_soak_are_no_tests
    assert_equal [1, 0, 0, 16_448], counts("16448 activities, 0 failed\n", true)
    assert_equal [0, 1, 0, 16_448], counts("16448 activities, 3 failed\n", false)
    assert_equal [11, 0, 1, 2284], counts("2284 activities, 0 failed\n#{GREEN}", true)
    red = "2284 activities, 1 failed\n12 runs, 34 assertions, 1 failures, 0 errors, 0 skips\n"
    assert_equal [11, 1, 0, 2284], counts(red, false)
  end

  # Each has the file and the seed of its own process.
  def test_how_to_repeat_a_failure
    output = <<~TEXT
      == test/progress_test.rb (0.1 s)
      Run options: --seed 11
        1) Failure:
      ProgressTest#test_one [test/progress_test.rb:9]:
      == #{TestFiles::TOGETHER} (0.2 s)
      Run options: --seed 22
        1) Failure:
      SuiteResultTest#test_two [test/support/x.rb:9]:
    TEXT
    found = SuiteResult.new(output, status(false), "3.4").failures
    assert_equal [["test/progress_test.rb", "11"], ["test/suite_result_test.rb", "22"]],
                 found.map { |failure| [failure.file, failure.seed] }
  end

  # The one that was running is named, also where many files share a process.
  def test_how_to_repeat_a_test_that_broke_off
    ["test/suite_result_test.rb (9.0 s)", "#{TestFiles::TOGETHER} (0.2 s)"].each do |head|
      output = <<~TEXT
        == #{head}
        Run options: --seed 33
        [BUG] Segmentation fault

        SuiteResultTest#test_three was running.
        #{TestFiles::BROKEN}#{head[/\S+/]}: ended by SIGSEGV
      TEXT
      result = SuiteResult.new(output, status(false), "3.4")
      command = "bin/test test/suite_result_test.rb -n '/\\A(test_three)\\z/' --seed 33 --ruby 3.4"
      assert_equal ["#{command}  # ended by SIGSEGV"], result.failures.map(&:to_s)
      assert_equal 1, result.failed
    end
  end

  # A few may be the machine's fault.
  def test_a_suite_of_which_many_tests_were_repeated_has_failed
    repeated = ->(count) { "repeated after a timing failure: A#test_b: late\n" * count }
    assert_equal [11, 0, 1, 0], counts(repeated[5] + GREEN, true)
    assert_equal [11, 1, 1, 0], counts(repeated[6] + GREEN, true)
    large = "600 runs, 900 assertions, 0 failures, 0 errors, 0 skips\n"
    assert_equal [600, 0, 0, 0], counts(repeated[12] + large, true)
    assert_equal [600, 1, 0, 0], counts(repeated[13] + large, true)
  end

  def test_why_tests_were_skipped
    output = "skipped: A::BTest#test_c: of Linux only\nskipped: A#test_a: b: no such gem\n#{GREEN}"
    assert_equal ["of Linux only", "b: no such gem"],
                 SuiteResult.new(output, status(true), "3.4").reasons
  end

  def test_a_suite_that_hangs_or_says_nothing
    assert_equal [11, 1, 1, 0], counts(GREEN, nil)
    assert_equal [1, 0, 0, 0], counts("", true)
    assert_equal [0, 1, 0, 0], counts("", false)
  end
end

# frozen_string_literal: true

require "minitest/autorun"
require_relative "subprocess"

# What missed a limit on time runs once more, and nothing else does.
class TimingTest < Minitest::Test
  SCRIPT = <<~RUBY.freeze
    require "minitest/autorun"
    require "#{__dir__}/timing"
    $runs = Hash.new(0)
    $VERBOSE = nil
    Minitest.after_run { puts $runs.sort.inspect }
    class Once < Minitest::Test
      def test_late_once = assert_in_time(2 - ($runs[:late_once] += 1), 1)
      def test_late_twice = ($runs[:late_twice] += 1) && assert_in_time(2, 1)
      def test_wrong = ($runs[:wrong] += 1) && flunk("wrong")
      def test_late_then_wrong = ($runs[:late_then_wrong] += 1) == 1 ? assert_in_time(2, 1) : flunk("bad")
    end
  RUBY

  def test_once_and_only_for_time
    result = Subprocess.ruby(SCRIPT, loaded: false)

    assert_includes result.out, "4 runs, 4 assertions, 3 failures, 0 errors, 0 skips"
    assert_includes result.out,
                    "[[:late_once, 2], [:late_then_wrong, 2], [:late_twice, 2], [:wrong, 1]]"
    assert_includes result.out, "twice: took too long: 2.000 s, at most 1.000"
    assert_equal %w[test_late_once test_late_then_wrong test_late_twice],
                 result.err.scan(/^repeated after a timing failure: Once#(\w+): /).flatten.sort
    refute_predicate result.status, :success?
  end
end

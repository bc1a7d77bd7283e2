# frozen_string_literal: true

require_relative "helper"

class BenchStatisticsTest < Minitest::Test
  Statistics = Bench::Statistics

  def test_median_of_odd_and_even_counts
    assert_equal 3.0, Statistics.median([5, 1, 3])
    assert_equal 2.5, Statistics.median([4, 1, 3, 2])
  end

  def test_median_of_nothing_is_refused
    assert_raises(ArgumentError) { Statistics.median([]) }
  end

  # 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sum of squares 32, n - 1 = 7.
  def test_cv_is_the_sample_deviation_over_the_mean
    assert_in_delta Math.sqrt(32 / 7.0) / 5, Statistics.cv([2, 4, 4, 4, 5, 5, 7, 9]), 1e-12
    assert_nil Statistics.cv([3])
    assert_nil Statistics.cv([-1, 1])
  end

  # Published tables of order statistics for the median: six values need all of them.
  def test_interval_lies_between_order_statistics
    assert_nil Statistics.interval((1..5).to_a)
    assert_equal [1, 6], Statistics.interval([4, 6, 1, 3, 2, 5])
    assert_equal [2, 11], Statistics.interval((1..12).to_a.reverse)
    assert_equal [5, 16], Statistics.interval((1..20).to_a.shuffle(random: Random.new(1)))
  end

  # Whoever looks at 6, 12 and 20 values and stops when he likes errs in no more than 5 % of cases.
  def test_intervals_hold_however_often_one_looked
    random = Random.new(1)
    missed = Array.new(2_000) do
      values = Array.new(20) { random.rand }
      Statistics::RISKS.keys.any? do |count|
        low, high = Statistics.interval(values.first(count))
        low > 0.5 || high < 0.5
      end
    end.count(true)

    assert_operator Statistics::RISKS.values.sum, :<, 0.05
    assert_includes 60..110, missed # 98.8 expected at most, standard deviation 9.7
  end
end

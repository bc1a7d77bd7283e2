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

  def test_percentile_is_linear_between_values
    assert_equal 1.0, Statistics.percentile([3, 1, 2], 0)
    assert_equal 3.0, Statistics.percentile([3, 1, 2], 1)
    assert_in_delta 1.5, Statistics.percentile([3, 1, 2], 0.25), 1e-12
    assert_raises(ArgumentError) { Statistics.percentile([1], 1.5) }
  end

  def test_interval_is_the_same_each_time_and_holds_the_median
    values = [9.8, 10.1, 10.0, 10.3, 9.9, 10.2, 10.0, 9.7, 10.1, 10.0]
    low, high = Statistics.interval(values)

    assert_equal [low, high], Statistics.interval(values)
    assert_operator low, :<=, Statistics.median(values)
    assert_operator high, :>=, Statistics.median(values)
    assert_operator low, :>=, values.min
    assert_operator high, :<=, values.max
  end

  def test_interval_of_equal_values_is_a_point
    assert_equal [4.0, 4.0], Statistics.interval([4, 4, 4])
  end

  # The interval of 95 % must hold the true median in about 95 % of 200 experiments.
  def test_interval_covers_the_truth_about_as_often_as_it_says
    random = Random.new(1)
    covered = Array.new(200) do
      values = Array.new(15) { random.rand }
      low, high = Statistics.interval(values, rounds: 300)
      low <= 0.5 && high >= 0.5
    end.count(true)

    assert_operator covered, :>, 175
  end
end

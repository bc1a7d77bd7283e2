# frozen_string_literal: true

require_relative "helper"

class BenchEstimateTest < Minitest::Test
  Estimate = Bench::Estimate

  def test_ratio_is_the_median_of_the_pairs
    estimate = Estimate.from([[200, 100], [300, 100], [250, 100]] * 2, better: :higher)

    assert_in_delta 2.5, estimate.ratio, 1e-9
    assert_equal 6, estimate.pairs
    assert_in_delta 2.0, estimate.low, 1e-9
    assert_in_delta 3.0, estimate.high, 1e-9
  end

  def test_less_time_is_better_too
    estimate = Estimate.from([[1.0, 2.0]] * 6, better: :lower)

    assert_in_delta 2.0, estimate.ratio, 1e-9
    assert_equal :faster, estimate.verdict
  end

  # Drift of the machine hits both of a pair, so the ratio does not see it.
  def test_pairs_cancel_a_machine_that_gets_slower
    pairs = (1..10).map { |pass| [120.0 / pass, 100.0 / pass] }
    estimate = Estimate.from(pairs, better: :higher)

    assert_in_delta 1.2, estimate.ratio, 1e-9
    assert_in_delta estimate.low, estimate.high, 1e-9
  end

  def test_pairs_without_a_number_are_left_out
    estimate = Estimate.from([[1, nil], [nil, 1], [3, 2], [0, 1]], better: :higher)

    assert_equal 1, estimate.pairs
    assert_nil Estimate.from([[nil, 1]], better: :higher)
  end

  def test_verdicts
    assert_equal :faster, Estimate.new(1.3, 1.2..1.4, 10).verdict
    assert_equal :slower, Estimate.new(0.8, 0.7..0.9, 10).verdict
    assert_equal :same, Estimate.new(1.0, 0.99..1.015, 10).verdict
    assert_equal :inconclusive, Estimate.new(1.05, 0.98..1.2, 10).verdict
    assert_equal :inconclusive, Estimate.new(1.03, 1.015..1.05, 10).verdict
  end

  # Of five pairs that all say the same, the median lies outside in 6 of 100 cases.
  def test_five_pairs_are_too_few_for_a_verdict
    estimate = Estimate.from([[3.0, 1.0]] * 5, better: :higher)

    assert_equal :few, estimate.verdict
    assert_nil estimate.low
    assert_in_delta 3.0, estimate.ratio, 1e-9
    assert_equal 1.0, estimate.spread
  end

  def test_a_claim_within_the_noise_is_not_made
    estimate = Estimate.new(1.10, 1.05..1.15, 10)

    assert_equal :faster, estimate.verdict(floor: 1.05)
    assert_equal :inconclusive, estimate.verdict(floor: 1.12)
    assert_equal :inconclusive, Estimate.new(0.92, 0.9..0.95, 10).verdict(floor: 1.12)
  end

  def test_spread_is_the_larger_of_both_directions
    assert_in_delta 1.25, Estimate.new(1.0, 0.8..1.1, 10).spread, 1e-9
    assert_in_delta 1.1, Estimate.new(1.0, 0.95..1.1, 10).spread, 1e-9
  end
end

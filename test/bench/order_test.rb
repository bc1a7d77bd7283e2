# frozen_string_literal: true

require_relative "helper"

class BenchOrderTest < Minitest::Test
  include BenchHelper

  def labels(steps)
    steps.map { |step| "#{step.params[:runtime]}#{step.params[:delay_ms]}#{"'" if step.again}" }
  end

  def test_passes_alternate_and_the_noise_floor_spans_the_row
    steps = Bench::Order.steps(table, pairs: Bench::Estimate::FEWEST, quick: true)

    first, second = steps.group_by(&:pass).values

    assert_equal %w[nb0 threads0 nb0' nb100 threads100 nb100'], labels(first)
    assert_equal %w[nb0' threads0 nb0 nb100' threads100 nb100], labels(second)
  end

  # With too few pairs for a verdict nothing is compared with the noise floor, so none is measured.
  def test_few_passes_measure_no_noise_floor
    steps = Bench::Order.steps(table, pairs: Bench::Estimate::FEWEST - 1, quick: true)

    assert_empty steps.select(&:again)
  end

  # Over two passes every cell stands, on average, at the same place in time.
  def test_two_passes_treat_all_cells_alike
    steps = Bench::Order.steps(table, pairs: 2).select { |step| step.params[:delay_ms] == 10 }
    passes = steps.group_by(&:pass).values.map { |pass| labels(pass) }
    places = passes.first.map { |label| passes.sum { |pass| pass.index(label) } }

    assert_equal 1, places.uniq.size
  end

  def test_only_keeps_the_runtimes_named
    steps = Bench::Order.steps(table, pairs: 1, only: %w[threads])

    assert_equal %w[threads0 threads10 threads100], labels(steps)
  end

  def test_at_most_ends_the_passes_of_a_cell
    limited = Bench::TableBuilder.build("t2") do
      question "?"
      source article: "A", author: "B", year: 2008
      differs "-"
      axis :runtime, %w[blocking nb]
      workload "churn"
      at_most(1) { |cell, _quick| cell[:runtime] == "blocking" }
    end
    steps = Bench::Order.steps(limited, pairs: 3)

    assert_equal %w[blocking nb nb nb], labels(steps)
  end
end

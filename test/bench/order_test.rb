# frozen_string_literal: true

require_relative "helper"

class BenchOrderTest < Minitest::Test
  include BenchHelper

  def passes(table, count, cells: table.groups, **options)
    Array.new(count) do |pass|
      cells.flat_map { |group| Bench::Order.pass(table, group, pass, **options) }
    end
  end

  def labels(steps)
    steps.map { |step| "#{step.params[:runtime]}#{step.params[:delay_ms]}#{"'" if step.again}" }
  end

  def test_passes_alternate_and_the_noise_floor_spans_the_row
    first, second = passes(table, 2, cells: table.groups(quick: true))

    assert_equal %w[nb0 threads0 nb0' nb100 threads100 nb100'], labels(first)
    assert_equal %w[nb0' threads0 nb0 nb100' threads100 nb100], labels(second)
  end

  def test_where_nothing_is_compared_no_noise_floor_is_measured
    assert_empty passes(table, 2, again: false).flatten.select(&:again)
  end

  # Over two passes every cell stands, on average, at the same place in time.
  def test_two_passes_treat_all_cells_alike
    cells = table.groups.select { |group| group.first[:delay_ms] == 10 }
    passes = passes(table, 2, cells: cells).map { |pass| labels(pass) }
    places = passes.first.map { |label| passes.sum { |pass| pass.index(label) } }

    assert_equal 1, places.uniq.size
  end

  def test_only_and_where_keep_the_cells_named
    only = table.groups(only: %w[threads])
    where = table.groups(quick: true, where: { "delay_ms" => %w[10], "other" => %w[1] })

    assert_equal %w[threads0 threads10 threads100], labels(passes(table, 1, cells: only).flatten)
    assert_equal %w[nb10 threads10 nb10'], labels(passes(table, 1, cells: where).flatten)
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

    assert_equal %w[blocking nb nb nb], labels(passes(limited, 3).flatten)
  end
end

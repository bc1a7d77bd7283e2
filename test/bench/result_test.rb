# frozen_string_literal: true

require_relative "helper"

class BenchResultTest < Minitest::Test
  include BenchHelper

  def test_figures_are_medians_with_their_range
    figure = usual_result.figure({ runtime: "nb", delay_ms: 0 })

    assert_equal 2090.0, figure.value
    assert_equal [2000, 2210], [figure.low, figure.high]
    assert_equal 6, figure.count
    assert_equal 0.5, figure.cpu
    refute figure.noisy?
  end

  def test_other_numbers_of_a_sample_are_found_by_name
    assert_equal 1000.0, usual_result.median({ runtime: "threads", delay_ms: 100 }, "twice")
  end

  def test_the_second_sample_is_no_part_of_the_figure
    only = result({ ["nb", 0] => [10] }, again: { ["nb", 0] => [1_000_000] })

    assert_equal 10.0, only.median({ runtime: "nb", delay_ms: 0 })
  end

  def test_the_grid_compares_with_a_noise_floor
    grid = usual_result.grids.first
    floor, threads = grid.comparisons

    assert floor.again
    assert_in_delta 1.0, floor.estimates.first.ratio, 0.01
    assert_in_delta 2.0, threads.estimates.first.ratio, 0.01
    assert_equal %i[faster faster same], threads.verdicts
    assert_equal %w[threads NeverBlock] + ["threads, 2008", "ideal"], grid.rows.map(&:label)
    assert_equal ["0 ms", "10 ms", "100 ms"], grid.columns
  end

  def test_an_amount_is_less_or_more
    grid = usual_result.grids.first
    assert_equal "faster", grid.word(:faster)

    grid.words = { faster: "less" }
    assert_equal %w[less same], [grid.word(:faster), grid.word(:same)]
  end

  def test_a_cell_with_errors_gets_no_verdict
    runs = usual_result.runs.each { |run| run.sample["errors"] = 1 if run.params[:delay_ms] == 10 }
    one = Bench::Result.new(table, sessions: [SESSION], runs: runs)
    verdicts = one.grids.first.comparisons.last

    assert_equal %i[faster errors same], verdicts.verdicts
  end

  def test_a_failed_cell_leaves_a_hole_and_a_reason
    run = Bench::Run.new("params" => { "runtime" => "nb", "delay_ms" => 0 }, "pass" => 0,
                         "again" => false, "sample" => { "failure" => "no result", "errors" => 1 })
    failed = Bench::Result.new(table, sessions: [SESSION], runs: [run])
    figure = failed.figure({ runtime: "nb", delay_ms: 0 })

    assert_nil figure.value
    assert_equal ["failed: no result"], figure.notes
    assert_equal ["NeverBlock, 0 ms: no result"], failed.failures
  end
end

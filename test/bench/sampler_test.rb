# frozen_string_literal: true

require_relative "helper"

class BenchSamplerTest < Minitest::Test
  # Others use what the list says, one value after the other, the last one forever.
  Crowd = Struct.new(:shares) do
    def watch = [yield, shares.size > 1 ? shares.shift : shares.first]
  end

  # @return [Array] the only sample of the row, those thrown away, how often it waited
  def take(*shares, **options)
    discarded = []
    pauses = 0
    sampler = Bench::Sampler.new(neighbours: Crowd.new(shares), pause: -> { pauses += 1 },
                                 **options)
    number = 0
    row = sampler.take(->(samples) { discarded.concat(samples) }) do
      [{ "value" => number += 1, **@more.to_h }]
    end
    [*row, discarded, pauses]
  end

  def test_a_sample_beside_nobody_is_taken_once
    assert_equal [{ "value" => 1, "others" => 0.012 }, [], 0], take(0.0123)
  end

  def test_a_sample_beside_others_is_taken_again_when_they_have_stopped
    sample, discarded, pauses = take(0.9, 0.8, 0.7, 0.0)

    assert_equal({ "value" => 2, "others" => 0.0, "repeats" => 1 }, sample)
    assert_equal [{ "value" => 1, "others" => 0.9 }], discarded
    assert_equal 3, pauses
  end

  def test_after_some_tries_it_is_kept_with_a_mark
    sample, discarded, pauses = take(1.5)

    assert_equal({ "value" => 4, "others" => 1.5, "repeats" => 3 }, sample)
    assert_equal 3, discarded.size
    assert_equal 3 * Bench::Sampler::PATIENCE, pauses
    assert_predicate Bench::Run.new({ "params" => {}, "pass" => 0, "again" => false,
                                      "sample" => sample }), :crowded?
  end

  def test_a_busy_session_keeps_what_it_gets
    assert_equal [{ "value" => 1, "others" => 1.5 }, [], 0], take(1.5, busy: true)
  end

  def test_a_cell_that_failed_is_not_tried_again
    @more = { "failure" => "exit 1" }

    assert_equal 0, take(1.5).last
  end
end

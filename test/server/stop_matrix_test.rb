# frozen_string_literal: true

require "minitest/autorun"
require_relative "stop/run"

# A few rounds of the stop matrix; `rake matrix:stop[200]` runs as many as you like.
class ServerStopMatrixTest < Minitest::Test
  ROUNDS = 10
  SEED = 1

  def test_nothing_is_lost_and_nothing_hangs
    rounds = StopMatrix.run(ROUNDS, SEED, slow: 1.0)
    failed = rounds.select { |round| round.faults.any? }.map(&:to_s)
    assert_empty failed, failed.join("\n")
    assert_operator rounds.sum { |round| round.answered.to_i }, :>, 0
  end
end

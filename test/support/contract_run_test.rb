# frozen_string_literal: true

require "minitest/autorun"
require_relative "contract"

# What a contract's run makes of a body.
class ContractRunTest < Minitest::Test
  # Its loop ends when the first fiber waits.
  class Hasty
    def enter(&block) = Fiber.new(&block).resume
  end

  def run_in(world, &body) = ContractRun.new(self, world, limit: 5, ticker: false, &body).run

  # No `ensure` runs then, and nothing was raised.
  def test_a_body_that_is_left_before_its_end_has_failed
    left = run_in(Hasty.new) { Fiber.yield }
    assert_equal "the loop has ended, the body has not", left.error.message
    ended = run_in(Hasty.new) { :value }
    assert_equal [:value, nil, []], [ended.value, ended.error, ended.left]
  end
end

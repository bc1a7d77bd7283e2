# frozen_string_literal: true

# Tests of code that waits for hours, in milliseconds: the clock jumps whenever all fibers wait.
#
# Run: ruby -Ilib examples/cookbook/retries_test.rb
# Ctrl-C: the running test is interrupted, and the rest does not begin.

require "minitest/autorun"
require "neverblock/minitest"

Delivery = Struct.new(:api, :log) do
  def deliver
    NB.retry(times: 4, wait: ->(attempt, _) { attempt * 3600 }, on: IOError) do
      log << Process.clock_gettime(Process::CLOCK_MONOTONIC)
      NB.timeout(30, IOError) { api.call }
    end
  end
end

class DeliveryTest < Minitest::Test
  include NB::Minitest # a loop for each test; no task may fail unseen or be left behind
  virtual_time!

  def test_tries_again_after_one_two_and_three_hours
    delivery = Delivery.new(-> { sleep }, []) # never answers: each try ends after 30 s
    assert_raises(IOError) { delivery.deliver }
    pauses = delivery.log.each_cons(2).map { |one, other| ((other - one) / 3600).round }
    assert_equal [1, 2, 3], pauses
  end

  def test_an_answer_within_the_time_is_enough
    ticks = 0
    NB.every(1) { ticks += 1 } # others go on meanwhile
    assert_equal :done, Delivery.new(-> { sleep(29.5) && :done }, []).deliver
    assert_equal 29, ticks
  end
end

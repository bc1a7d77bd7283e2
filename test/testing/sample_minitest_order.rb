# frozen_string_literal: true

require "minitest/autorun"
require "neverblock/minitest"

# What minitest_test.rb runs and judges: the second test is to know nothing of the first.
class OrderSampleTest < Minitest::Test
  include NB::Minitest
  virtual_time!

  def self.test_order = :alpha

  def test_1_tasks_fail
    NB.async(name: "earlier") { raise IOError }
    NB.async(name: "earlier, at its end") do
      sleep
    ensure
      raise IOError
    end
    assert_raises(KeyError) do
      NB.group do |group|
        2.times { group.async(name: "earlier, in a group") { sleep(1) && raise(KeyError) } }
      end
    end
  end

  def test_2_deadlocks
    NB.async(name: "of this test") { raise IOError }
    Thread::Queue.new.pop
  end
end

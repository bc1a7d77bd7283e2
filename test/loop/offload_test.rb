# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"

class OffloadTest < Minitest::Test
  def test_value_and_error_come_back_from_another_thread
    NB.run do
      here = Thread.current
      refute_same here, NB.offload { Thread.current }
      error = assert_raises(ArgumentError) { NB.offload { raise ArgumentError, "inside" } }
      assert_equal "inside", error.message
    end
  end

  def test_other_fibers_run_meanwhile
    gate = Thread::Queue.new
    NB.run do
      Fiber.schedule { gate << :go }
      assert_equal :go, NB.offload { gate.pop }
    end
  end

  def test_at_most_size_at_a_time_and_the_rest_queues
    offload = NB::Offload.new(size: 2)
    gate = Thread::Queue.new
    started = Thread::Queue.new
    jobs = Array.new(5) { |i| offload.start { started << i && gate.pop && i } }
    2.times { started.pop }

    assert_equal({ size: 2, threads: 2, busy: 2, queued: 3 }, offload.stats)
    5.times { gate << true }
    assert_equal [0, 1, 2, 3, 4], jobs.map(&:value)
  end

  def test_a_cancelled_fiber_leaves_the_work_to_its_end
    done = Thread::Queue.new
    gate = Thread::Queue.new
    NB.run do
      task = NB.async { NB.offload { gate.pop && done << :done } }
      task.cancel.wait
      gate << true
    end

    assert_equal :done, done.pop
  end

  def test_size_is_checked
    error = assert_raises(ArgumentError) { NB::Offload.new(size: 0) }
    assert_match(/size: .* 1 or more, got: 0/, error.message)
  end
end

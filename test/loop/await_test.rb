# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"

class AwaitTest < Minitest::Test
  def test_resumed_at_once_by_a_fiber_and_by_a_thread
    NB.run do
      assert_equal 1, NB.await { |resume| resume.call(1) }
      assert_equal 2, NB.await { |resume| Fiber.schedule { sleep(0.001) && resume.call(2) } }
      assert_equal 3, NB.await { |resume| Thread.new { resume.call(3) } }
    end
  end

  def test_works_in_a_plain_thread
    assert_equal 4, NB.await { |resume| Thread.new { resume.call(4) } }
  end

  def test_an_error_is_raised_in_the_waiting_fiber
    NB.run do
      error = assert_raises(IOError) { NB.await { |resume| resume.raise(IOError, "gone") } }
      assert_equal "gone", error.message
      assert_raises(RuntimeError) { NB.await { |resume| resume.raise("text") } }
    end
  end

  def test_only_the_first_call_counts
    calls = []
    value = NB.await { |resume| 3.times { |i| calls << resume.call(i) } }

    assert_equal 0, value
    assert_equal [true, false, false], calls
  end

  # As another thread that gets its turn there.
  def test_of_two_calls_at_once_one_is_the_first
    calls = []
    value = NB.await do |resume|
      point = TracePoint.new(:c_return, :return) do |at|
        next unless at.method_id == :push

        point.disable
        calls << resume.call(:second)
      end
      point.enable { calls << resume.call(:first) }
    end
    assert_equal :first, value
    assert_equal [false, true], calls
  end

  def test_a_resume_can_be_given_as_a_block
    assert_equal 5, NB.await { |resume| [5].each(&resume) }
  end

  def test_a_late_call_after_a_timeout_does_nothing
    late = nil
    NB.run do
      assert_raises(Timeout::Error) { NB.timeout(0.01) { NB.await { |resume| late = resume } } }
      refute late.call(:too_late)
    end
  end
end

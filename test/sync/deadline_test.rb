# frozen_string_literal: true

require_relative "support"

# NB.deadline, what tasks inherit of it, and waits with a limit.
class DeadlineTest < Minitest::Test
  include SyncSupport

  everywhere "tells_what_is_left" do
    assert_nil NB.deadline
    NB.timeout(10) do
      assert_in_delta 10, NB.deadline, 2
      NB.timeout(60) { assert_operator NB.deadline, :<=, 10, "the outer one ends it" }
      NB.timeout(5) { assert_operator NB.deadline, :<=, 5 }
      assert_operator NB.deadline, :>, 5
      NB.timeout(nil) { refute_nil NB.deadline }
    end
    assert_nil NB.deadline
    assert_raises(KeyError) { NB.timeout(1) { raise KeyError } }
    assert_nil NB.deadline
  end

  everywhere "is_zero_once_it_has_passed" do
    left = nil
    assert_raises(Timeout::Error) do
      NB.timeout(0.01) do
        sleep
      ensure
        left = NB.deadline
      end
    end
    assert_equal 0.0, left
    assert_nil NB.deadline
  end

  scheduled "a_task_has_that_of_its_starter", clock: :virtual do
    seen = []
    late = NB.timeout(1) do
      NB.group { |group| 2.times { group.async { seen << NB.deadline } } }
      NB.map([1], concurrency: 1) { seen << NB.deadline }
      NB.async { NB.async { seen << NB.deadline }.wait }.wait
      NB.async { sleep }
    end
    late.report_on_exception = false
    assert_equal 4, seen.compact.size
    assert_operator seen.max, :<=, 1
    assert_raises(Timeout::Error) { late.wait(20) }
    assert_equal [nil], [NB.async { NB.deadline }.value]
  end

  # The group is ended by the timeout itself, with the error that was asked for.
  scheduled "the_error_is_that_of_the_timeout" do
    50.times do
      assert_raises(KeyError) do
        NB.timeout(0.002, KeyError) { NB.gather(-> { sleep }, -> { sleep }) }
      end
    end
  end

  def test_a_background_task_has_none
    in_thread do
      NB.run do
        NB.timeout(30) do
          assert_equal [nil], [NB.async(background: true) { NB.deadline }.value]
          assert_equal [nil], [NB.every(0.001) { break NB.deadline }.value]
        end
      end
    end
  end

  scheduled "wait_and_value_with_a_limit" do
    gate = Thread::Queue.new
    task = NB::Task.new { gate.pop && 42 }
    assert_nil task.wait(0)
    assert_nil task.wait(0.001)
    error = assert_raises(Timeout::Error) { task.value(0.001) }
    assert_match(/\Ano value within 0\.001 s: #<NB::Task .* running>\z/, error.message)
    gate << true
    assert_same task, task.wait(10)
    assert_equal [42, 42], [task.value(0), task.value(nil)]
    failed = NB::Task.new { sleep(0.001) && raise(KeyError) }
    assert_raises(KeyError) { failed.wait(10) }
    assert_raises(KeyError) { failed.value(0) }
    assert_raises(NB::TaskCancelledError) { NB::Task.new { sleep }.cancel.value(10) }
  end

  scheduled "a_wait_with_a_wrong_limit" do
    task = NB::Task.new { sleep(0.001) }
    ["1", -1, Float::NAN].each do |value|
      error = assert_raises(ArgumentError) { task.wait(value) }
      assert_match(/\Athe timeout of a task must be seconds, .*, got: /, error.message)
    end
    assert_same task, task.wait(Float::INFINITY)
  end

  scheduled "an_outer_timeout_ends_a_wait_with_a_limit" do
    task = NB::Task.new { sleep }
    assert_raises(Timeout::Error) { Timeout.timeout(0.005) { task.wait(60) } }
    assert_predicate task, :alive?
    waiter = NB::Task.new { task.wait(60) }
    assert_predicate waiter.cancel.wait, :cancelled?
    task.cancel.wait
  end

  def test_threads_wait_with_a_limit
    in_thread do
      NB.run do
        gate = Thread::Queue.new
        task = NB.async { gate.pop && 42 }
        assert_nil Thread.new { task.wait(0.001) }.value
        waiting = Thread.new { task.value(10) }
        gate << true
        assert_equal 42, waiting.value
      end
    end
  end
end

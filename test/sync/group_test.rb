# frozen_string_literal: true

require_relative "support"

class GroupTest < Minitest::Test
  include SyncSupport

  # Sleeps until cancelled; tells the log when it begins and when its `ensure` is over.
  def sleeper(log, name = :sleeper)
    lambda do
      log << [name, :begin]
      sleep
    ensure
      sleep(0.002)
      log << [name, :end]
    end
  end

  scheduled "ends_when_all_have_ended_with_the_value_of_the_block" do
    ended = []
    value = NB::Group.run do |group|
      3.times { |i| group.async { sleep(0.001 * (3 - i)).then { ended << i } } }
      :value
    end
    assert_equal :value, value
    assert_equal [0, 1, 2], ended.sort
  end

  scheduled "an_empty_group_is_its_block" do
    assert_equal 1, NB::Group.run { 1 }
  end

  scheduled "the_first_error_cancels_the_others_and_the_block_and_is_raised" do
    log = []
    error = assert_raises(KeyError) do
      NB::Group.run do |group|
        group.async(&sleeper(log))
        group.async { sleep(0.002) && raise(KeyError, "first") }
        begin
          sleep
        rescue NB::Cancelled => cancelled
          log << cancelled.cause.message
          raise
        ensure
          log << :block
        end
      end
    end
    assert_equal "first", error.message
    assert_equal [%i[sleeper begin], "first", :block, %i[sleeper end]], log
  end

  scheduled "a_task_that_fails_at_once_cancels_a_block_that_waits_later" do
    assert_raises(KeyError) do
      NB::Group.run do |group|
        group.async { raise KeyError, "at once" }
        sleep
      end
    end
  end

  scheduled "no_cancel_is_left_over_for_the_waits_after_the_group" do
    assert_raises(KeyError) do
      NB::Group.run { |group| group.async { raise KeyError, "the block does not wait" } }
    end
    3.times { sleep(0.001) }
    assert_raises(KeyError) do
      NB::Group.run do |group|
        group.async { sleep(0.001) && raise(KeyError, "the block swallows its cancel") }
        begin
          sleep
        rescue Exception # rubocop:disable Lint/RescueException, Lint/SuppressedException -- the case
        end
      end
    end
    3.times { sleep(0.001) }
  end

  scheduled "the_block_fails" do
    log = []
    error = assert_raises(KeyError) do
      NB::Group.run do |group|
        group.async(&sleeper(log))
        raise KeyError, "block"
      end
    end
    assert_equal "block", error.message
    assert_equal [%i[sleeper begin], %i[sleeper end]], log
  end

  scheduled "leaving_by_break_or_throw_cancels" do
    log = []
    value = NB::Group.run do |group|
      group.async(&sleeper(log, :break))
      break 5
    end
    assert_equal 5, value
    value = catch(:out) do
      NB::Group.run do |group|
        group.async(&sleeper(log, :throw))
        throw :out, 6
      end
    end
    assert_equal 6, value
    assert_equal %i[break break throw throw], log.map(&:first)
  end

  scheduled "a_timeout_around_the_block_cancels" do
    log = []
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.005) do
        NB::Group.run do |group|
          group.async(&sleeper(log))
          sleep
        end
      end
    end
    assert_equal %i[begin end], log.map(&:last)
  end

  scheduled "a_timeout_while_only_tasks_run_cancels" do
    log = []
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.005) { NB::Group.run { |group| group.async(&sleeper(log)) } }
    end
    assert_equal %i[begin end], log.map(&:last)
  end

  scheduled "a_second_interrupt_waits_for_the_tasks_too_and_wins" do
    sleeping, ending, gate = Array.new(3) { Thread::Queue.new }
    fiber = nil
    parent = NB::Task.new do
      fiber = Fiber.current
      NB::Group.run do |group|
        group.async do
          sleeping.push(true) && sleep
        ensure
          ending.push(true)
          gate.pop
        end
      end
    end
    sleeping.pop
    sleep(0.001) # the child sleeps, the parent waits for it
    NB::Interruption.deliver(Fiber.scheduler, fiber, Timeout::Error.new("the first"))
    ending.pop
    parent.cancel
    sleep(0.005)
    assert_predicate parent, :alive?, "the group left its task behind"
    gate.push(true)
    assert_raises(NB::TaskCancelledError) { parent.value }
  end

  scheduled "cancelling_the_one_who_runs_the_group" do
    log = []
    parent = NB::Task.new do
      NB::Group.run do |outer|
        outer.async { NB::Group.run { |inner| inner.async(&sleeper(log, :inner)) } }
        outer.async(&sleeper(log, :outer))
      end
    ensure
      log << :parent
    end
    assert_predicate parent.cancel.wait, :cancelled?
    assert_equal [%i[inner begin], %i[outer begin]], log.first(2)
    assert_equal [%i[inner end], %i[outer end]], log[2..3].sort
    assert_equal :parent, log.last
  end

  scheduled "an_interrupt_that_strikes_at_any_return_leaves_nobody_waiting", others: false do
    folder = File.dirname(NB::Group.instance_method(:async).source_location.first)
    left = 0
    body = lambda do
      left += 1
      sleep 0.0001
    ensure
      left -= 1
    end
    (1..).each do |step|
      ended = Timeout.timeout(20) do
        strike(:return, step, folder) { NB.group { |group| 2.times { group.async(&body) } } }
      end
      assert_equal 0, left, "struck at step #{step}"
      break if ended
    end
  end

  scheduled "an_error_in_a_nested_group_passes_through_both" do
    log = []
    assert_raises(KeyError) do
      NB::Group.run do |outer|
        outer.async(&sleeper(log, :outer))
        NB::Group.run do |inner|
          inner.async(&sleeper(log, :inner))
          inner.async { sleep(0.001) && raise(KeyError, "inner") }
          sleep
        end
      end
    end
    assert_equal 2, log.count { |_, event| event == :end }
  end

  scheduled "an_error_of_the_outer_group_reaches_a_block_within_the_inner" do
    log = []
    assert_raises(KeyError) do
      NB::Group.run do |outer|
        outer.async { sleep(0.001) && raise(KeyError, "outer") }
        NB::Group.run do |inner|
          inner.async(&sleeper(log, :inner))
          sleep
        end
        flunk
      end
    end
    assert_equal %i[begin end], log.map(&:last)
  end

  scheduled "further_errors_are_reported_and_the_first_is_not" do
    report = captured_stderr do
      error = assert_raises(KeyError) do
        NB::Group.run do |group|
          group.async { sleep(0.001) && raise(KeyError, "first") }
          group.async do
            sleep
          ensure
            raise IndexError, "second"
          end
        end
      end
      assert_equal "first", error.message
    end
    assert_match(/second \(IndexError\)/, report)
    assert_equal 1, report.scan("nobody waits for").size
  end

  scheduled "an_error_that_something_else_outran_is_reported" do
    report = captured_stderr do
      assert_raises(IndexError) do
        NB::Group.run do |group|
          group.async do
            sleep
          ensure
            raise KeyError, "in an ensure"
          end
          raise IndexError, "block"
        end
      end
    end
    assert_match(/in an ensure \(KeyError\)/, report)
  end

  scheduled "an_error_that_came_through_value_is_raised_once_and_not_reported" do
    report = captured_stderr do
      assert_raises(KeyError) do
        NB::Group.run do |group|
          task = group.async { sleep(0.001) && raise(KeyError, "value") }
          task.value
        end
      end
    end
    assert_empty report
  end

  scheduled "what_the_block_raises_instead_wins_and_has_the_error_as_a_cause" do
    report = captured_stderr do
      error = assert_raises(IndexError) do
        NB::Group.run do |group|
          group.async { sleep(0.001) && raise(KeyError, "task") }
          begin
            sleep
          ensure
            raise IndexError, "clean-up"
          end
        end
      end
      assert_equal "task", error.cause.cause.message
    end
    assert_empty report
  end

  scheduled "cancelling_one_task_is_no_error" do
    value = NB::Group.run do |group|
      task = group.async { sleep }
      sleep(0.001)
      task.cancel.wait
      :fine
    end
    assert_equal :fine, value
  end

  scheduled "cancel_from_the_block_leaves_it_at_once" do
    log = []
    value = NB::Group.run do |group|
      group.async(&sleeper(log))
      group.cancel
      log << :not_here
    end
    assert_nil value
    assert_equal [%i[sleeper begin], %i[sleeper end]], log
  end

  scheduled "cancel_from_a_task_ends_all_the_others_and_itself" do
    log = []
    value = NB::Group.run do |group|
      group.async(&sleeper(log))
      group.async do
        sleep(0.001)
        group.cancel
        log << :not_here
      end
      sleep
    end
    assert_nil value
    assert_equal [%i[sleeper begin], %i[sleeper end]], log
    sleep(0.001)
  end

  scheduled "cancel_from_outside" do
    group = nil
    log = []
    task = NB::Task.new do
      NB::Group.run do |it|
        group = it
        it.async(&sleeper(log))
        sleep
      end
      :went_on
    end
    group.cancel(KeyError.new("why"))
    assert_equal :went_on, task.value
    assert_equal %i[begin end], log.map(&:last)
    assert_same group, group.cancel
  end

  scheduled "a_task_started_in_a_cancelled_group_does_not_run" do
    ran = false
    late = nil
    assert_raises(KeyError) do
      NB::Group.run do |group|
        group.async do
          sleep
        ensure
          late = group.async { ran = true }
        end
        group.async { raise KeyError }
      end
    end
    refute ran
    assert_predicate late, :cancelled?
  end

  scheduled "tasks_may_start_tasks_while_the_group_waits" do
    depth = 0
    grow = lambda do |group|
      depth += 1
      sleep(0.0005)
      group.async { grow.call(group) } if depth < 10
    end
    NB::Group.run { |group| group.async { grow.call(group) } }
    assert_equal 10, depth
  end

  scheduled "async_after_the_end_or_from_another_thread_is_refused" do
    group = nil
    NB::Group.run do |it|
      group = it
      thread = Thread.new { assert_raises(NB::WrongThreadError) { it.async { 1 } } }
      thread.join
    end
    assert_raises(NB::ClosedError) { group.async { 1 } }
    assert_raises(KeyError) { NB::Group.run { |it| (group = it) && raise(KeyError) } }
    assert_raises(NB::ClosedError) { group.async { 1 } }
  end

  scheduled "inspect_tells_state_and_count" do
    NB::Group.run do |group|
      task = group.async { sleep }
      assert_equal "#<NB::Group open, 1 tasks>", group.inspect
      task.cancel
    end
  end

  def test_a_group_needs_a_scheduler
    assert_match(/NB.run/, assert_raises(NB::NoSchedulerError) { NB::Group.run { 1 } }.message)
  end
end

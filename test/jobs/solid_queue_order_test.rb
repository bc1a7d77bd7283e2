# frozen_string_literal: true

require "jobs/helper"

# Which jobs of Solid Queue run when: schedules, delays, priorities, pauses. What is expected is
# what workers with `threads:` do, which are tried too.
class SolidQueueOrderTest < Minitest::Test
  include QueueApp::Tests.on("postgresql")

  EVERY_SECOND = { "test" => { "tick" => { "class" => "TickJob",
                                           "schedule" => "every second" } } }.freeze

  MODES.each do |mode, size|
    define_method("test_recurring_tasks_run_once_each_time_with_#{mode}") do
      start(recurring: EVERY_SECOND, mode => size)
      eventually { notes("tick").count >= 3 }
      assert_equal 0, stop
      times = SolidQueue::RecurringExecution.order(:run_at).pluck(:run_at)
      assert_equal times.uniq, times
      assert_equal [0], times.map(&:usec).uniq # each on its second; a late one is left out
      # What was enqueued while the worker ended is still there.
      assert_equal times.size, notes("tick").count + unfinished.count
      assert_none_left
    end

    define_method("test_a_paused_queue_waits_until_it_is_resumed_with_#{mode}") do
      queue = SolidQueue::Queue.find_by_name("default")
      queue.pause
      start(mode => size)
      enqueue(CallJob, 3, 1)
      CallJob.set(queue: "other").perform_later(9, 1)
      eventually { notes("called").any? }
      assert_equal [9], notes("called").pluck(:number)
      queue.resume
      done
      assert_equal [1, 2, 3, 9], notes("called").order(:number).pluck(:number)
      assert_equal 0, stop
    end

    define_method("test_a_job_of_later_comes_in_its_time_with_#{mode}") do
      start(mode => size)
      CallJob.set(wait: 1.hour).perform_later(1, 1)
      CallJob.perform_later(2, 1)
      eventually { notes("called").any? }
      due = clock + 1
      SolidQueue::ScheduledExecution.update_all(scheduled_at: 1.second.from_now)
      done
      assert_equal [2, 1], notes("called").order(:id).pluck(:number)
      assert_operator calls.map { |_, time| time.to_f }.max, :>=, due
      assert_equal 0, stop
    end

    define_method("test_priorities_with_#{mode}") do
      (1..6).each { |number| CallJob.set(priority: 10 - number).perform_later(number, 1) }
      start(mode => 1)
      done
      assert_equal [6, 5, 4, 3, 2, 1], notes("called").order(:id).pluck(:number)
      assert_equal 0, stop
    end
  end
end

# frozen_string_literal: true

require "jobs/helper"

# How workers of Solid Queue with `fibers:` end, and what becomes of their jobs. What is expected is
# what workers with `threads:` do, which are tried too.
class SolidQueueStopsTest < Minitest::Test
  include QueueApp::Tests

  MODES.each_key do |mode|
    define_method("test_term_lets_jobs_end_with_#{mode}") do
      start(mode => MODES[mode])
      enqueue(LongJob, 5, 1)
      eventually { notes("began").count == 5 }
      assert_equal 0, stop
      assert_equal [["at once", 5]], notes("ended").group(:text).count.to_a
      assert_empty SolidQueue::Job.where(finished_at: nil)
      assert_none_left
    end

    define_method("test_what_term_does_not_wait_for_runs_again_with_#{mode}") do
      start(mode => MODES[mode], env: { APP_SHUTDOWN: "1" })
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      stop
      assert_equal 5, SolidQueue::ReadyExecution.count
      assert_released_and_run_again(5)
      assert_empty notes("tidied") if mode == :threads
    end

    define_method("test_quit_ends_at_once_with_#{mode}") do
      start(mode => MODES[mode])
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      stop(:QUIT)
      assert_equal 5, SolidQueue::ReadyExecution.count
      assert_released_and_run_again(5)
      assert_empty notes("tidied")
    end

    define_method("test_a_killed_worker_loses_nothing_with_#{mode}") do
      start(mode => MODES[mode])
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      Process.kill(:KILL, worker.pid)
      eventually { SolidQueue::FailedExecution.count == 5 }
      assert_equal ["SolidQueue::Processes::ProcessExitError"], failed.map(&:first).uniq
      SolidQueue::FailedExecution.all.each(&:retry)
      done
      assert_run_again(5)
    end

    define_method("test_a_supervisor_after_a_crash_of_all_finds_them_with_#{mode}") do
      start(mode => MODES[mode])
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      @programs.last.kill
      start(mode => MODES[mode], env: { APP_ALIVE: "1.5" })
      eventually { SolidQueue::FailedExecution.count == 5 }
      SolidQueue::FailedExecution.all.each(&:retry)
      done
      assert_run_again(5)
    end
  end

  # With threads nothing of a job runs any more. What a job makes of it changes nothing.
  def test_stopped_jobs_tidy_up_and_those_that_swallow_it_run_again_too
    start(fibers: 100, env: { APP_SHUTDOWN: "5" })
    ActiveJob.perform_all_later(LongJob.new(1, 60), StubbornJob.new(2, 60))
    eventually { notes("began").count == 2 }
    stop
    assert_equal 2, notes("tidied").count
    assert_empty notes("reported").pluck(:text)
    assert_released_and_run_again(2)
  end

  # A hundred in the middle of calls and queries: some have ended, each has its row in the end.
  def test_kill_in_the_middle_of_much_work
    start(fibers: 100)
    enqueue(CallJob, 200, 300)
    eventually { notes("called").count > 20 }
    Process.kill(:KILL, worker.pid)
    eventually do
      SolidQueue::FailedExecution.all.each(&:retry)
      SolidQueue::Job.where(finished_at: nil).none?
    end
    assert_equal (1..200).to_a, notes("called").distinct.order(:number).pluck(:number)
    assert_operator notes("called").count, :<=, 300
  end

  def test_the_end_of_the_loops_thread_ends_the_worker_which_is_replaced
    start(fibers: 100)
    enqueue(LongJob, 5, 60)
    eventually { notes("began").count == 5 }
    KillingJob.perform_later(6)
    done
    assert_run_again(6)
    assert_empty notes("ended").distinct.pluck(:pid) & notes("began").distinct.pluck(:pid)
  end

  private

  def assert_released_and_run_again(count)
    assert_empty failed
    assert_none_left
    start(fibers: 10)
    done
    assert_run_again(count)
  end

  # Nothing of the first runs was kept but that they began.
  def assert_run_again(count)
    assert_equal({ "again" => count }, notes("ended").group(:text).count)
    assert_equal (1..count).to_a, notes("began").order(:number).pluck(:number)
    assert_empty notes("half")
  end
end

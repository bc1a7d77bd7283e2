# frozen_string_literal: true

require "jobs/helper"

# How workers of Solid Queue with `fibers:` end, and what becomes of their jobs. What is expected is
# what workers with `threads:` do, which are tried too.
class SolidQueueStopsTest < Minitest::Test
  include QueueApp::Tests.on("postgresql")

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
      assert_released(5)
      assert_empty notes("tidied") if mode == :threads
      assert_run_later(5)
    end

    define_method("test_steps_continue_where_term_has_interrupted_them_with_#{mode}") do
      start(mode => MODES[mode], env: { APP_SHUTDOWN: "20", **SLOW_ITEMS })
      interrupt_steps { assert_equal 0, stop }
      start(mode => MODES[mode])
      assert_steps_continue
    end

    define_method("test_quit_ends_at_once_with_#{mode}") do
      start(mode => MODES[mode])
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      stop(:QUIT)
      assert_released(5)
      assert_empty notes("tidied")
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
    assert_released(2)
    assert_run_later(2)
  end

  def test_a_job_that_makes_an_error_of_its_stop_runs_again_once
    start(fibers: 100, env: { APP_SHUTDOWN: "5" })
    count = enqueue_turning
    stop
    assert_released(count)
    assert_run_later(count)
    assert_empty notes("discarded")
  end

  def test_sentry_does_not_hear_of_stops
    start(fibers: 100, env: { APP_SHUTDOWN: "5", APP_SENTRY: "1" })
    ActiveJob.perform_all_later(LongJob.new(1, 60), TurningJob.new(2, 60), FailingJob.new(3))
    eventually { notes("began").count == 2 && notes("sentry").any? }
    stop
    assert_equal ["FailingJob::Broken"], notes("sentry").distinct.pluck(:text)
  end

  private

  def assert_released(count)
    assert_equal count, SolidQueue::ReadyExecution.count
    assert_empty failed
    assert_none_left
  end

  def assert_run_later(count)
    start(fibers: 10)
    done
    assert_run_again(count)
  end
end

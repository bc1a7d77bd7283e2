# frozen_string_literal: true

require "jobs/good_job_case"

# How processes of GoodJob with `fibers` end, and what becomes of their jobs. What is expected is
# what its threads do, which are tried too.
class GoodJobStopsTest < Minitest::Test
  include QueueApp::GoodJobCase

  MODES.each do |mode, settings|
    define_method("test_term_lets_jobs_end_with_#{mode}") do
      start(**settings)
      enqueue(LongJob, 5, 1)
      eventually { notes("began").count == 5 }
      assert_equal 0, stop
      assert_equal({ "at once" => 5 }, notes("ended").group(:text).count)
      assert_empty unfinished
      assert_none_left
    end

    define_method("test_steps_continue_where_term_has_interrupted_them_with_#{mode}") do
      skip "Active Job has no steps before 8.1" unless defined?(StepsJob)

      start(env: SLOW_ITEMS, **settings)
      interrupt_steps { assert_equal 0, stop }
      start(**settings)
      assert_steps_continue
    end

    define_method("test_a_killed_process_loses_nothing_with_#{mode}") do
      start(**settings)
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      kill_program
      start(**settings)
      done
      assert_run_again(5)
    end
  end

  # With fibers that is the thread of all, and they are cancelled; with threads it is the job's own.
  # Jobs that come then may be taken by the dying loop, too; the next ones run. What was broken off
  # runs when the process has started again.
  MODES.each do |mode, settings|
    define_method("test_a_job_that_kills_its_thread_loses_nothing_with_#{mode}") do
      start(**settings)
      enqueue(LongJob, 3, 60)
      eventually { notes("began").count == 3 }
      KillingJob.perform_later(4)
      eventually { notes("began").count == 4 }
      calls = 0
      eventually { CallJob.perform_later(calls += 1, 1) && notes("called").any? }
      kill_program
      start(**settings)
      done
      assert_run_again(4)
      assert_equal (1..calls).to_a, notes("called").distinct.order(:number).pluck(:number)
    end
  end

  # The process does not wait for threads that it kills: their jobs are found five minutes later.
  def test_what_term_does_not_wait_for_is_given_back_and_runs_again
    start(**MODES[:fibers], shutdown_timeout: 1)
    enqueue(LongJob, 5, 60)
    eventually { notes("began").count == 5 }
    assert_equal 0, stop
    assert_equal 5, unfinished.count
    assert_equal 5, notes("tidied").count
    assert_none_left
    start(**MODES[:fibers])
    done
    assert_run_again(5)
    assert_equal 5, GoodJob::Execution.where(error_event: "interrupted").count
  end

  # A thread cannot; what a job makes of its stop changes nothing.
  def test_a_job_that_swallows_its_stop_runs_again
    start(**MODES[:fibers], shutdown_timeout: 1)
    enqueue(StubbornJob, 2, 60)
    eventually { notes("began").count == 2 }
    assert_equal 0, stop
    assert_equal 2, unfinished.count
    assert_empty GoodJob::Job.pluck(:error).compact
    assert_none_left
  end

  # A killed thread's job does not know that it was killed, either.
  def test_a_job_that_makes_an_error_of_its_stop_runs_again_once
    start(**MODES[:fibers], shutdown_timeout: 1)
    count = enqueue_turning
    assert_equal 0, stop
    assert_equal count, unfinished.count
    assert_empty GoodJob::Job.pluck(:error).compact
    assert_none_left
    start(**MODES[:fibers])
    done
    assert_run_again(count)
    assert_empty notes("discarded")
  end

  def test_sentry_does_not_hear_of_stops
    start(**MODES[:fibers], shutdown_timeout: 1, env: { APP_SENTRY: "1" })
    ActiveJob.perform_all_later(LongJob.new(1, 60), TurningJob.new(2, 60), FailingJob.new(3))
    eventually { notes("began").count == 2 && notes("sentry").any? }
    assert_equal 0, stop
    assert_equal ["FailingJob::Broken"], notes("sentry").distinct.pluck(:text)
    assert_empty notes("reported").pluck(:text)
  end

  private

  # A process runs jobs before it has the lock by which others see that it lives: without it, it
  # would be taken for dead after five minutes.
  def kill_program
    eventually { GoodJob::Process.exists?(lock_type: :advisory) }
    @programs.last.kill
  end
end

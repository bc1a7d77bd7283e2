# frozen_string_literal: true

require "jobs/helper"

# Workers of Solid Queue with `fibers:` that are killed, and what becomes of their jobs. What is
# expected is what workers with `threads:` do, which are tried too.
class SolidQueueCrashesTest < Minitest::Test
  include QueueApp::Tests.on("postgresql")

  MODES.each_key do |mode|
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
      start(mode => MODES[mode], env: { APP_ALIVE: "4" })
      eventually { SolidQueue::FailedExecution.count == 5 }
      SolidQueue::FailedExecution.all.each(&:retry)
      done
      assert_run_again(5)
    end
  end

  # Its supervisor kills it, because it does not end by itself.
  MODES.each_key do |mode|
    define_method("test_a_process_that_hangs_in_its_fork_is_replaced_with_#{mode}") do
      file = "#{QueueApp::FOLDER}/unborn"
      start(mode => MODES[mode], env: { APP_UNBORN: file })
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      File.write(file, "")
      Process.kill(:KILL, worker.pid)
      eventually { @programs.last.unborn.any? }
      SolidQueue::FailedExecution.all.each(&:retry)
      done
      assert_run_again(5)
      assert_equal 1, @programs.last.unborn.size
      refute_path_exists file
    end
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
end

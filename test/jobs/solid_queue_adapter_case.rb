# frozen_string_literal: true

require "jobs/helper"

# What Solid Queue's workers with `fibers:` are tried for on each database but PostgreSQL, where
# all is tried: few tests, since each starts processes.
module QueueApp::SolidQueueAdapterCase
  include QueueApp::Tests

  # @param adapter [String] ActiveRecord's
  # @return [Module] this one, with the application loaded
  def self.on(adapter)
    QueueApp::Tests.on(adapter)
    self
  end

  # All at once, on five connections: calls, state, retries, a limit, failures; then a stop.
  def test_jobs_of_all_kinds_and_a_stop
    start(fibers: 100, env: { APP_CONNECTIONS: "5", APP_SHUTDOWN: "30", **gate(11) })
    { CallJob => [30, 400], StateJob => [9], RetriedJob => [5], LimitedJob => [3] }
      .each { |job, (count, *words)| enqueue(job, count, *words) }
    enqueue(FailingJob, 3)
    eventually { [unfinished, SolidQueue::FailedExecution].map(&:count) == [3, 3] }
    assert_kinds
    enqueue(LongJob, 5, 1)
    eventually { notes("began").count == 5 }
    assert_equal 0, stop
    assert_equal({ "at once" => 5 }, notes("ended").group(:text).count)
    assert_match(/busy 0, dead 0, connections [1-5], NB/, exit_notes.first)
    assert_none_left
  end

  # A worker killed in the middle, and a stop that does not wait for long jobs.
  def test_a_killed_worker_and_a_late_stop_lose_nothing
    start(fibers: 100, env: { APP_SHUTDOWN: "1" })
    enqueue(LongJob, 10, 60)
    eventually { notes("began").count == 10 }
    Process.kill(:KILL, worker.pid)
    eventually { SolidQueue::FailedExecution.count == 10 }
    assert_equal ["SolidQueue::Processes::ProcessExitError"], failed.map(&:first).uniq
    ActiveJob.perform_all_later(LongJob.new(11, 60), StubbornJob.new(12, 60))
    eventually { notes("began").count == 12 }
    stop
    assert_equal 2, SolidQueue::ReadyExecution.count
    assert_none_left
    SolidQueue::FailedExecution.all.each(&:retry)
    start(fibers: 100)
    eventually { unfinished.none? }
    assert_run_again(12)
  end

  # The server goes away and comes back while jobs call, insert, and are noted as done.
  def test_a_restart_of_the_database_loses_nothing
    return skip("SQLite has no server") unless QueueApp.place

    start(fibers: 100, env: { APP_ALIVE: "4" })
    enqueue(CallJob, 60, 300)
    eventually { notes("called").count > 5 }
    QueueApp.place.restart
    eventually { retry_failed && unfinished.none? }
    assert_equal (1..60).to_a, notes("called").distinct.order(:number).pluck(:number)
  end

  private

  def assert_kinds
    assert_equal (1..30).to_a, notes("called").order(:number).pluck(:number)
    assert_operator most_at_once, :>, 10
    assert_empty notes("mixed").pluck(:text) + notes("kept").pluck(:number)
    assert_equal 9, notes("state").count
    assert_equal({ "1" => 5, "2" => 5, "3" => 5 }, notes("attempt").group(:text).count)
    assert_limited
    assert_empty notes("lost")
    assert_equal (1..3).map { |n| ["FailingJob::Broken", "job #{n}"] }.sort, failed.sort
  end

  def assert_limited
    steps = Note.where(kind: %w[enter leave]).order(:id).pluck(:kind, :number)
    assert_equal steps.size / 2, steps.each_slice(2).count { |(a, n), (b, m)|
      a == "enter" && b == "leave" && n == m
    }
  end

  # As somebody who looks after the queue.
  def retry_failed
    SolidQueue::FailedExecution.all.each(&:retry)
  rescue ActiveRecord::ActiveRecordError
    nil # it is down, or a job is being written
  end
end

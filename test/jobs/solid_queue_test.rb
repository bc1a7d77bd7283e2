# frozen_string_literal: true

require "jobs/helper"
require "active_support/testing/constant_stubbing"

# Solid Queue's workers with `fibers:`, in processes as its `bin/jobs` makes them, on PostgreSQL.
class SolidQueueTest < Minitest::Test
  include QueueApp::Tests.on("postgresql")
  include ActiveSupport::Testing::ConstantStubbing

  def test_a_hundred_wait_at_once_and_each_leaves_its_row
    start(fibers: 100, env: { APP_CONNECTIONS: "5", **gate(51) })
    enqueue(CallJob, 200, 500)
    done
    assert_equal (1..200).to_a, notes("called").order(:number).pluck(:number)
    assert_equal %w[done], calls.map(&:first).uniq
    assert_operator most_at_once, :>, 50
    assert_equal({ fiber: 100 }, pool)

    stop
    assert_match(/async nil, threads \d, busy 0, dead 0, connections [1-5], NB/, exit_notes.first)
    assert_none_left
  end

  # One query for all, not one for each; and a failure of it leaves the claims as they are.
  def test_jobs_that_are_claimed_together_are_loaded_together
    { { fibers: 100 } => 0, { threads: 100 } => 20 }.each do |size, queries|
      assert_equal [20, queries], claimed(size)
    end
    failing = Class.new { def initialize(**) = raise(ActiveRecord::StatementInvalid, "cut off") }
    told = claimed({ fibers: 100 }) do |claim|
      stub_const(ActiveRecord::Associations, :Preloader, failing, &claim)
    end
    assert_equal [20, 20], told
  end

  def test_state_does_not_cross
    start(fibers: 10)
    enqueue(StateJob, 60)
    done
    assert_empty notes("mixed").pluck(:text)
    assert_empty notes("kept")
    assert_equal 60, notes("state").count
    stop
    assert_equal 1, exit_notes.size
  end

  MODES.each_key do |mode|
    define_method("test_failing_jobs_are_noted_and_reported_with_#{mode}") do
      start(mode => MODES[mode])
      enqueue(FailingJob, 20)
      eventually { SolidQueue::FailedExecution.count == 20 && notes("reported").count == 20 }
      assert_equal (1..20).map { |n| ["FailingJob::Broken", "job #{n}"] }.sort, failed.sort
      assert_equal (1..20).map { |n| "FailingJob::Broken: job #{n} (handled: false)" }.sort,
                   notes("reported").pluck(:text).sort
      assert_empty notes("lost")
      stop
      assert_match(/busy 0, dead 0/, exit_notes.first)
      assert_none_left
    end
  end

  def test_retries
    start(fibers: 100)
    enqueue(RetriedJob, 10)
    eventually { notes("attempt").count == 30 }
    done
    assert_equal({ "1" => 10, "2" => 10, "3" => 10 }, notes("attempt").group(:text).count)
    assert_empty failed
  end

  def test_limits_hold
    start(fibers: 100)
    enqueue(LimitedJob, 20)
    done
    steps = Note.where(kind: %w[enter leave]).order(:id).pluck(:kind, :number)
    assert_equal 40, steps.size
    assert_empty(steps.each_slice(2).reject { |(a, n), (b, m)|
 a == "enter" && b == "leave" && n == m })
  end

  def test_heartbeats_come_while_jobs_run
    start(fibers: 100)
    enqueue(CallJob, 100, 60_000)
    eventually { SolidQueue::ClaimedExecution.count == 100 }
    beat = worker.last_heartbeat_at
    eventually { worker.last_heartbeat_at > beat }
    assert_equal 100, SolidQueue::ClaimedExecution.count
    stop(:QUIT)
  end

  def test_workers_in_threads_of_the_supervisor
    start(fibers: 20, env: { SOLID_QUEUE_SUPERVISOR_MODE: "async" })
    enqueue(CallJob, 40, 100)
    done
    assert_equal (1..40).to_a, notes("called").order(:number).pluck(:number)
    assert_equal 0, stop
    assert_match(/async nil.*NB::Drivers::SolidQueue::FiberPool/, exit_notes.first)
    assert_none_left
  end

  def test_nb_jobs_leaves_threads_where_neverblock_is_off
    config = YAML.dump(QueueApp.queue(threads: 2))
    @programs = [QueueApp.nb_jobs("solid_queue", env: { NB_DRIVERS: "-solid_queue" },
                                                 "queue.yml": config)]
    enqueue(CallJob, 10, 100)
    done
    assert_equal({ thread: 2 }, pool)
    assert_match(/nb jobs: NeverBlock's part for it is off \(solid_queue .* off/, logs)
    assert_equal 0, stop
  end

  def test_nb_jobs
    config = QueueApp.queue(threads: 3)
    @programs = [QueueApp.nb_jobs("-f", "50", "solid_queue", "queue.yml": YAML.dump(config))]
    enqueue(CallJob, 20, 10)
    done
    assert_equal({ fiber: 50 }, pool)
    assert_equal 0, stop
    assert_none_left
  end

  # With gem async there, as Solid Queue means it.
  def test_switched_off
    start(fibers: 20, env: { NB_DRIVERS: "-solid_queue" })
    enqueue(CallJob, 40, 100)
    done
    stop
    assert_match(/async "constant".* SolidQueue::FiberPool/, exit_notes.first)
  end

  private

  # @yieldparam claim [Proc] to be called
  # @return [Array(Integer, Integer)] how many jobs, and how many queries it takes to have them
  def claimed(size)
    enqueue(CallJob, 20, 0)
    worker = SolidQueue::Worker.new(queues: "*", **size)
    worker.send(:register)
    claim = -> { worker.send(:claim_executions) }
    executions = block_given? ? yield(claim) : claim.call
    [executions.size, queries { executions.each(&:job) }]
  ensure
    worker&.send(:deregister)
    QueueApp.empty
  end

  def queries(&block)
    count = 0
    ActiveSupport::Notifications.subscribed(->(*) { count += 1 }, "sql.active_record", &block)
    count
  end

  def pool
    metadata = worker.metadata
    { metadata["pool_type"].to_sym => metadata["pool_size"] }
  end
end

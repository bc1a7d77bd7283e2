# frozen_string_literal: true

require "jobs/good_job_case"

# GoodJob with `fibers`, in processes as its command makes them, on PostgreSQL. What is expected is
# what its threads do, which are tried too.
class GoodJobTest < Minitest::Test
  include QueueApp::GoodJobCase

  # One of the connections is the listener's.
  def test_a_hundred_wait_at_once_on_few_connections_and_each_leaves_its_row
    start(fibers: true, threads: 100, env: { APP_CONNECTIONS: "6", **gate(26) })
    enqueue(CallJob, 200, 1000)
    done
    assert_equal (1..200).to_a, notes("called").order(:number).pluck(:number)
    assert_equal %w[done], calls.map(&:first).uniq
    assert_operator most_at_once, :>, 25
    assert_equal 0, stop
    assert_match(/busy 0, dead 0, connections [1-6]\z/, exit_notes.first)
    assert_none_left
  end

  def test_a_number_of_fibers_is_how_many_wait_at_once
    start(fibers: 30, threads: 7, queues: "mail:3;*", env: gate(30))
    enqueue(CallJob, 90, 500)
    done
    assert_equal 30, most_at_once
    assert_match(/fibers: 30 and threads: 7: 30 jobs run at once; leave one of the two out/, logs)
    assert_equal 0, stop
  end

  # Also none at all, as with threads.
  def test_a_group_of_queues_may_have_a_number_of_its_own
    start(fibers: 30, queues: "mail:3;other;none:0", env: gate(3))
    (1..9).each { |number| CallJob.set(queue: "mail").perform_later(number, 300) }
    done
    assert_equal 3, most_at_once
    assert_equal 0, stop
    refute_match(/leave one|whole number/, logs)
  end

  def test_the_command_line_says_how_many
    start(fibers: 30, arguments: %w[--max-threads 3], env: gate(3))
    enqueue(CallJob, 12, 200)
    done
    assert_equal 3, most_at_once
    assert_equal 0, stop
  end

  def test_a_number_that_is_none_is_refused = assert_negative_fibers_refused

  # The end of a thread that loads code may be lost, and the process would stay.
  def test_a_number_that_is_none_is_refused_before_threads_start
    before = GoodJob::Notifier.instances.size
    error = assert_raises(ArgumentError) do
      Rails.application.config.good_job.stub(:[], ->(name) { -3 if name == :fibers }) do
        GoodJob::Capsule.new.start
      end
    end
    assert_match(/fibers: must be true, false or a number of fibers, got: -3/, error.message)
    assert_equal before, GoodJob::Notifier.instances.size
  end

  def test_state_does_not_cross
    start(fibers: true, threads: 10)
    enqueue(StateJob, 60)
    done
    assert_empty notes("mixed").pluck(:text)
    assert_empty notes("kept")
    assert_equal 60, notes("state").count
    assert_equal 0, stop
  end

  MODES.each do |mode, settings|
    define_method("test_failures_and_retries_with_#{mode}") do
      start(**settings)
      enqueue(FailingJob, 20)
      enqueue(RetriedJob, 10)
      done
      failed = GoodJob::Job.where(job_class: "FailingJob").pluck(:error, :error_event)
      expected = (1..20).map { |n| ["FailingJob::Broken: job #{n}", "unhandled"] }
      assert_equal expected.sort, failed.sort
      assert_equal({ "1" => 10, "2" => 10, "3" => 10 }, notes("attempt").group(:text).count)
      assert_empty notes("lost")
      assert_equal 0, stop
      assert_match(/busy 0, dead 0/, exit_notes.first)
      assert_none_left
    end
  end

  def test_limits_batches_and_cron
    start(fibers: true, threads: 50, env: { GOOD_JOB_ENABLE_CRON: "1" })
    enqueue(LimitedJob, 10)
    GoodJob::Batch.enqueue(on_finish: BatchEndJob, number: 7) do
      20.times { |number| CallJob.perform_later(number, 100) }
    end
    eventually { notes("batch").any? && notes("tick").count >= 2 }
    eventually { notes("leave").count == 10 }
    assert_equal [[7, "20"]], notes("batch").pluck(:number, :text)
    steps = Note.where(kind: %w[enter leave]).order(:id).pluck(:kind, :number)
    steps.each_slice(2) { |(_, entered), (_, left)| assert_equal entered, left }
    assert_equal %w[enter leave] * 10, steps.map(&:first)
  end

  # GoodJob notes which of them run, before each of them.
  def test_jobs_with_a_rule_share_connections_too
    start(fibers: true, threads: 50, env: { APP_CONNECTIONS: "6", **gate(26) })
    enqueue(CountedJob, 50, 1000)
    done
    assert_operator most_at_once, :>, 25
    assert_equal 0, stop
    assert_match(/busy 0, dead 0/, exit_notes.first)
  end

  # As GoodJob locks by itself: each job that runs has a connection.
  def test_advisory_locks_hold_a_connection_for_each_job
    start(fibers: true, threads: 20, lock_strategy: "advisory", env: { APP_CONNECTIONS: "8" })
    enqueue(CallJob, 40, 100)
    done
    assert_equal (1..40).to_a, notes("called").order(:number).pluck(:number)
    assert_operator most_at_once, :<=, 8
    assert_match(/20 fibers, but only 8 jobs run at once: .* lock_strategy :advisory/, logs)
    assert_equal 0, stop
    assert_none_left
  end

  def test_advisory_locks_with_connections_without_a_limit
    skip "Rails #{Rails::VERSION::STRING} has a limit" if Rails::VERSION::STRING < "8.1"

    start(fibers: true, threads: 20, lock_strategy: "advisory",
          env: { APP_ADAPTER: "postgresql", APP_CONNECTIONS: "-1", **gate(11) })
    enqueue(CallJob, 40, 100)
    done
    assert_operator most_at_once, :>, 10
    assert_equal 0, stop
    assert_none_left
  end

  def test_nb_jobs
    told = { GOOD_JOB_LOCK_STRATEGY: "skiplocked", **gate(11) }
    @programs = [QueueApp.nb_jobs("-f", "50", "good_job", env: told)]
    enqueue(CallJob, 100, 500)
    done
    assert_operator most_at_once, :>, 10 # threads: 5
    assert_equal 0, stop
    assert_none_left
  end

  def test_nb_jobs_leaves_threads_that_the_application_wants
    @programs = [QueueApp.nb_jobs("-f", "50", "good_job", env: { GOOD_JOB_FIBERS: "0" })]
    enqueue(CallJob, 30, 200)
    done
    assert_operator most_at_once, :<=, 5
    assert_match(/nb jobs: .*GoodJob's fibers to false/, logs)
    assert_equal 0, stop
  end

  OFF = { "NeverBlock's part for it is off \\(good_job .* off": { NB_DRIVERS: "-good_job" },
          "config.neverblock.enabled is false": { APP_DISABLED: "1", APP_ADAPTER: "postgresql" } }
        .freeze

  # Not as many as fibers.
  def test_nb_jobs_leaves_threads_where_neverblock_is_off
    OFF.each.with_index(1) do |(reason, env), round|
      @programs = [QueueApp.nb_jobs("-f", "50", "good_job", env: env)]
      enqueue(CallJob, 30, 200)
      eventually { notes("called").count == 30 * round }
      assert_operator most_at_once, :<=, 5
      assert_match(/nb jobs: #{reason}.*: good_job runs as the application has set it/, logs)
      assert_equal 0, stop
    end
  end

  # With :advisory, all fibers of the process need a connection each, whatever their group.
  def test_groups_of_queues_have_their_own_numbers
    @programs = [QueueApp.nb_jobs("-f", "50", "good_job",
                                  env: { GOOD_JOB_QUEUES: "mail:5;*:6", APP_CONNECTIONS: "8" })]
    CallJob.set(queue: "mail").perform_later(1, 1)
    CallJob.perform_later(2, 1)
    done
    assert_match(/queues "mail:5;\*:6" say how many .* --fibers is for groups without/, logs)
    assert_match(/11 fibers, but only 8 jobs run at once/, logs)
    assert_equal 0, stop
  end
end

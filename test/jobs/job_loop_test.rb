# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "neverblock/drivers/job_loop"
require "support/patience"
require "support/subprocess"

# The loop of a queue's worker, without a queue.
class JobLoopTest < Minitest::Test
  include Patience

  # One fiber runs the jobs one after the other, and keeps nothing of a job that was stopped.
  def test_no_job_begins_after_a_stop
    log = Thread::Queue.new
    jobs = NB::Drivers::JobLoop.new(1, on_error: ->(error) { log << error }, name: "jobs")
    worker = Thread.new { jobs.work }
    4.times do |number|
      jobs.post do
        jobs.cancellable { sleep if log << "#{number} begins" }
      rescue NB::Cancelled
        log << "#{number} stopped"
      end
    end
    eventually { log.size == 1 }
    jobs.close
    jobs.stop
    assert worker.join(20), "still at work"
    expected = ["0 begins", *Array.new(4) { |number| "#{number} stopped" }]
    assert_equal expected, Array.new(log.size) { log.pop }
  ensure
    worker&.kill
  end

  # As a library does that reads in a thread of its own, when its connection breaks.
  def test_what_a_thread_raises_in_the_loops_thread_ends_no_job
    log = Thread::Queue.new
    gate = Thread::Queue.new
    jobs = NB::Drivers::JobLoop.new(2, on_error: ->(error) { log << error.message }, name: "jobs")
    worker = Thread.new { jobs.work }
    jobs.post { log << "begins" && gate.pop && log << "ends" }
    assert_equal "begins", heard(log)
    2.times do
      Thread.pass until worker.stop?
      worker.raise("the connection broke")
      assert_equal "the connection broke", heard(log)
    end
    gate << true
    jobs.close
    assert worker.join(20), "still at work"
    assert_equal "ends", log.pop
  ensure
    worker&.report_on_exception = false
    worker&.kill
  end

  def heard(log) = eventually { log.pop unless log.empty? }

  WANTED = <<~RUBY
    require "neverblock/drivers/job_loop"
    print NB::Drivers::JobLoop.wanted?
    require "rails"
    class Small < Rails::Application
      config.neverblock.enabled = false if ENV["OFF"]
    end
    print NB::Drivers::JobLoop.wanted?
  RUBY

  # Otherwise jobs in fibers would share what Rails keeps per thread.
  def test_jobs_stay_in_threads_where_rails_is_left_alone
    { {} => true, { "NB_DRIVERS" => "-rails" } => false, { "OFF" => "1" } => false }
      .each do |env, wanted|
        result = Subprocess.ruby(WANTED, env: env)
        assert_equal "true#{wanted}", result.out, result.err
      end
  end
end

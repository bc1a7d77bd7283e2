# frozen_string_literal: true

require_relative "helper"
require_relative "../support/databases"
require "neverblock"
require "neverblock/cli/delay_server"
require_relative "../../bench/frame/workload"
require_relative "../../bench/workloads/jobs"

# Each worker of the tables of jobs does its jobs; and what it is told differs as it should.
class BenchJobsTest < Minitest::Test
  include BenchHelper

  Worker = Bench::Workloads::JobWorker
  # Table, worker, milliseconds of a job.
  CELLS = [["j1", "threads", 100], ["j1", "nb", 100], ["j2", "async", 100], ["j3", "sidekiq", 2]]
          .freeze

  def setup
    skip "the tables of jobs need Ruby 3.3" if RUBY_VERSION < "3.3"
  end

  CELLS.each do |id, worker, milliseconds|
    define_method("test_#{id}_by_#{worker}") do
      sample = with_service do |port|
        cell(id, { worker: worker, at_once: 5, jobs: 10, milliseconds: milliseconds },
             ports: { postgresql: Databases.postgresql.port, delayd: port,
                      redis: Databases.redis.port })
      end

      assert_equal [nil, 0, 10], sample.values_at("failure", "errors", "operations"),
                   sample["first_error"]
      assert_operator sample["metrics"]["cpu_us_per_op"], :>, 0
      assert_operator sample["metrics"]["connections"], :>, 0
    end
  end

  # Fibers share twelve connections; each thread has one.
  def test_only_our_worker_has_neverblock_and_only_threads_have_a_connection_each
    told = Worker::KINDS.keys.to_h do |kind|
      one = Worker.environment(kind, "//a@b/c", {}, at_once: 100)
      [kind, one.values_at("BENCH_QUEUE", "BENCH_ADAPTER", "BENCH_ISOLATION", "DATABASE_URL")]
    end

    many, few = [105, 12].map { |size| "postgresql://a@b/c?max_connections=#{size}" }
    ours = "neverblock-postgresql://a@b/c?connections=12"
    assert_equal({ "threads" => ["solid_queue", nil, "thread", many],
                   "async" => ["solid_queue", nil, "fiber", few],
                   "nb" => ["solid_queue", "neverblock", "fiber", ours],
                   "sidekiq" => ["sidekiq", nil, "thread", many] }, told)
  end

  def with_service
    service = NB::DelayServer.new
    thread = Thread.new { service.run }
    yield service.port
  ensure
    service.stop
    thread.join
  end
end

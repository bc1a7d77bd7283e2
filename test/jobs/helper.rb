# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "tmpdir"
require "yaml"
require "support/databases"
require "support/patience"
require "neverblock"
require "neverblock/cli/delay_server"

# The application of test/jobs/solid_queue_app in this process, which enqueues and looks, and
# supervisors of it in processes of their own, which work.
module SolidQueueApp
  ROOT = File.expand_path("solid_queue_app", __dir__)
  FOLDER = Dir.mktmpdir("nb-jobs")
  Minitest.after_run { FileUtils.rm_rf(FOLDER) }

  # A running `bin/jobs`.
  Supervisor = Struct.new(:pid, :waiter, :log) do
    def stop(signal = :TERM)
      Process.kill(signal, pid)
      waiter.value
    end

    # Nothing of it is left to run.
    def kill
      Process.kill(:KILL, -pid)
      waiter.join
    rescue Errno::ESRCH
      nil
    end
  end

  module_function

  def environment(**more)
    { "APP_DATABASE_PORT" => Databases.postgresql.port.to_s, "APP_SERVICE" => service.port.to_s,
      "RAILS_ENV" => "test", **more.transform_keys(&:to_s) }
  end

  # A service that answers after `?ms=`.
  def service
    @service ||= NB::DelayServer.new.tap { |server| Thread.new { server.run } }
  end

  # Loads the application into this process, with empty tables.
  def load
    ENV.update(environment)
    require_relative "solid_queue_app/environment"
    Minitest.after_run { ActiveRecord::Base.connection_handler.clear_all_connections!(:all) }
    ActiveRecord::Migration.suppress_messages { create_tables }
    ActiveJob::Base.logger = nil
  end

  def create_tables
    queue = Gem.loaded_specs["solid_queue"].full_gem_path
    Kernel.load(Dir["#{queue}/lib/generators/**/queue_schema.rb"].first)
    ActiveRecord::Schema.define do
      create_table(:notes, force: true) do |t|
        t.string :kind, null: false
        t.integer :number, :pid, null: false
        t.text :text
      end
    end
  end

  def empty
    tables = ActiveRecord::Base.connection.tables - %w[schema_migrations ar_internal_metadata]
    ActiveRecord::Base.connection.execute("TRUNCATE #{tables.join(", ")}")
  end

  # @param worker [Hash] of config/queue.yml
  # @return [Supervisor]
  def start(env: {}, **worker)
    config = "#{FOLDER}/queue.yml"
    File.write(config, YAML.dump(queue(**worker)))
    log = "#{FOLDER}/#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)}.log"
    pid = Process.spawn(environment(**env), RbConfig.ruby, "#{ROOT}/bin_jobs.rb", "-c", config,
                        "--skip-recurring", pgroup: true, out: log, err: log)
    Supervisor.new(pid, Process.detach(pid), log)
  end

  def queue(**worker)
    { "test" => { "dispatchers" => [{ "polling_interval" => 0.1, "batch_size" => 500 }],
                  "workers" => [{ "queues" => "*", "polling_interval" => 0.05,
                                  **worker.transform_keys(&:to_s) }] } }
  end
end

# What the tests of Solid Queue have in common.
module SolidQueueApp::Tests
  include Patience

  THERE = Gem::Specification.find_all_by_name("solid_queue").any?
  MODES = { fibers: 100, threads: 5 }.freeze

  def self.included(*) = THERE && SolidQueueApp.load

  def setup
    THERE ? SolidQueueApp.empty : skip("gem solid_queue is not there for Ruby #{RUBY_VERSION}")
  end

  def teardown
    @supervisors&.each(&:kill)
    puts so_far if failures.any?
  end

  private

  def start(**options)
    (@supervisors ||= []) << SolidQueueApp.start(**options)
    @supervisors.last
  end

  def stop(signal = :TERM) = @supervisors.last.stop(signal).exitstatus

  def enqueue(job, count, *arguments)
    ActiveJob.perform_all_later((1..count).map { |number| job.new(number, *arguments) })
  end

  def notes(kind) = Note.where(kind: kind)
  def exit_notes = notes("exit").pluck(:text)
  def failed = SolidQueue::FailedExecution.all.map { |one| [one.exception_class, one.message] }
  def done = eventually { SolidQueue::Job.where(finished_at: nil).none? }
  def worker = eventually { SolidQueue::Process.find_by(kind: "Worker") }
  def so_far = @supervisors&.map { |one| File.read(one.log) }&.join

  def assert_none_left
    assert_empty SolidQueue::ClaimedExecution.all
    assert_empty SolidQueue::Process.all
  end
end

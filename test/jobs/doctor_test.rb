# frozen_string_literal: true

require "json"
require "jobs/helper"
require "support/program"

# `nb doctor` on applications with job queues.
class JobsDoctorTest < Minitest::Test
  def test_good_job_whose_jobs_keep_their_connections
    examine("good_job", GOOD_JOB_FIBERS: "1", GOOD_JOB_MAX_THREADS: "50",
                        GOOD_JOB_SHUTDOWN_TIMEOUT: "25")
    assert_finding "warning", /GoodJob: 50 fibers, .* keeps a connection .* and primary has 12/,
                   /skiplocked/
  end

  def test_good_job_as_it_should_be
    examine("good_job", GOOD_JOB_FIBERS: "1", GOOD_JOB_MAX_THREADS: "50",
                        GOOD_JOB_LOCK_STRATEGY: "skiplocked", GOOD_JOB_SHUTDOWN_TIMEOUT: "25")
    assert_empty findings
  end

  def test_good_job_that_waits_for_its_jobs_without_limit
    examine("good_job", GOOD_JOB_FIBERS: "1", GOOD_JOB_LOCK_STRATEGY: "skiplocked")
    assert_finding "note", /GoodJob: a stop waits for running jobs without limit/,
                   /shutdown_timeout = 25/
  end

  def test_solid_queue_with_threads_and_with_few_connections
    examine("solid_queue", SOLID_QUEUE_CONFIG: configuration(threads: 7, processes: 2))
    assert_finding "note", /Solid Queue: 7 jobs at once in each process, in threads/, /nb jobs/
    examine("solid_queue", SOLID_QUEUE_CONFIG: configuration(fibers: 100), APP_CONNECTIONS: "5")
    assert_finding "warning", /Solid Queue: 5 connections to primary for 100 fibers/,
                   /connections: 12/
  end

  # None hides another.
  def test_workers_with_fibers_beside_workers_with_threads
    queues = QueueApp.queue(fibers: 10)
    queues["test"]["workers"] << { "queues" => "images", "threads" => 50 }
    file = "#{QueueApp::FOLDER}/mixed.yml"
    File.write(file, YAML.dump(queues))
    examine("solid_queue", SOLID_QUEUE_CONFIG: file)
    assert_equal ["Solid Queue: 50 threads, each with a connection while its job runs, and " \
                  "primary has 12",
                  "Solid Queue: 50 jobs at once in each process, in threads"],
                 (findings.map { |finding| finding["what"] })
  end

  def test_connections_without_a_limit
    unlimited = { APP_ADAPTER: "sqlite3", APP_CONNECTIONS: "-1" }
    examine("solid_queue", SOLID_QUEUE_CONFIG: configuration(fibers: 100), **unlimited)
    assert_empty findings
    examine("good_job", GOOD_JOB_FIBERS: "1", GOOD_JOB_SHUTDOWN_TIMEOUT: "25", **unlimited)
    assert_empty findings
  end

  # Jobs use both.
  def test_a_database_of_the_queue_s_own
    fibers = { SOLID_QUEUE_CONFIG: configuration(fibers: 100) }
    examine("solid_queue", **fibers, APP_QUEUE_CONNECTIONS: "5")
    assert_finding "warning", /5 connections to queue for 100 fibers/, /connections: 12/
    examine("solid_queue", **fibers, APP_QUEUE_CONNECTIONS: "12", APP_CONNECTIONS: "4")
    assert_finding "warning", /4 connections to primary for 100 fibers/, /connections: 12/
    examine("solid_queue", **fibers, APP_QUEUE_CONNECTIONS: "12")
    assert_empty findings
  end

  def test_sidekiq
    examine_sidekiq("fibers: true\nconcurrency: 100\n", APP_CONNECTIONS: "5")
    assert_finding "warning", /Sidekiq: 5 connections to primary for 100 fibers/, /connections: 12/
    examine_sidekiq(":concurrency: 3\n:test:\n  :fibers: true\n  :concurrency: 100\n")
    assert_empty findings
    examine_sidekiq("concurrency: 20\n")
    assert_equal %w[warning note], (findings.map { |finding| finding["level"] })
    assert_match(/20 threads, each with a connection while its job runs, and primary has 12/,
                 findings.first["what"])
  end

  def test_sidekiq_whose_stop_is_too_short_for_threads
    examine_sidekiq("concurrency: 3\ntimeout: 1\n")
    assert_equal %w[note warning], (findings.map { |finding| finding["level"] }.sort)
    assert_includes findings.to_s, "with a timeout of 1 s, a stop can lose jobs"
    examine_sidekiq("fibers: true\nconcurrency: 3\ntimeout: 1\n")
    assert_empty findings
  end

  # Sidekiq runs such blocks in its own process only; they count more than the file.
  def test_sidekiq_set_by_an_initializer
    lines = <<~RUBY
      Sidekiq.configure_server do |config|
        raise "this is not Sidekiq's process"
        config.concurrency = 100
        # config.concurrency = 3
        config[:fibers] = true
        config.capsule("mail") { |mail| mail.concurrency = 2 }
      end
    RUBY
    files = { "sidekiq.yml": "concurrency: 4\n", "initializers/sidekiq.rb": lines }
    examine("sidekiq", files: files, APP_CONNECTIONS: "5")
    assert_finding "warning", /Sidekiq: 5 connections to primary for 102 fibers/, /connections: 12/
  end

  def test_workers_that_only_puma_starts
    fibers = { SOLID_QUEUE_CONFIG: configuration(fibers: 100) }
    examine("solid_queue", files: { "puma.rb": "plugin :solid_queue if true\n" }, **fibers)
    assert_finding "note", /puma\.rb:1: .*: only Puma starts these workers/, /nb jobs/
    both = { "puma.rb": "plugin :solid_queue\nplugin :neverblock\n" }
    examine("solid_queue", files: both, **fibers)
    assert_empty findings
  end

  def test_a_plugin_that_was_left_when_sidekiq_came
    files = { "sidekiq.yml": "fibers: true\n", "puma.rb": "plugin :solid_queue if true\n" }
    examine("sidekiq", files: files)
    assert_empty findings
  end

  def test_more_connections_than_the_database_allows
    examine_processes(26)
    assert_finding "problem", /26 processes with 12 connections are 312; primary allows 300/,
                   /pgbouncer/
    examine_processes(25)
    assert_empty findings
  end

  private

  def examine(queue, files: {}, **environment)
    skip "gem #{queue} is not there for Ruby #{RUBY_VERSION}" unless QueueApp.there?(queue)

    folder = QueueApp.folder(**files)
    environment = { APP_QUEUE: queue, APP_ROOT: folder,
                    APP_ADAPTER: "neverblock_sqlite3", APP_DATABASE_PORT: "",
                    APP_DATABASE: "#{QueueApp::FOLDER}/doctor.sqlite3", RAILS_ENV: "test",
                    APP_SERVICE: "0", **environment }
    out, errors, = Open3.capture3(environment.transform_keys(&:to_s), *Program::NB, "doctor",
                                  "--json", folder)
    assert_empty errors
    @findings = JSON.parse(out).fetch("findings")
  end

  def examine_sidekiq(settings, **environment)
    examine("sidekiq", files: { "sidekiq.yml": settings }, **environment)
  end

  # With the PostgreSQL of the tests.
  def examine_processes(count)
    base = Databases.postgresql
    examine("solid_queue", SOLID_QUEUE_CONFIG: configuration(fibers: 100, processes: count),
                           APP_ADAPTER: "neverblock_postgresql", APP_DATABASE: base.database,
                           APP_DATABASE_PORT: base.port.to_s)
  end

  def configuration(**worker)
    "#{QueueApp::FOLDER}/#{worker.hash}.yml".tap do |file|
      File.write(file, YAML.dump(QueueApp.queue(**worker)))
    end
  end

  def findings = @findings.select { |finding| finding["check"].start_with?("job") }

  def assert_finding(level, what, cure)
    assert_equal [level], findings.map { |finding| finding["level"] }, @findings.inspect
    assert_match what, findings.first["what"]
    assert_match cure, findings.first["cure"]
  end
end

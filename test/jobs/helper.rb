# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "tmpdir"
require "yaml"
require "support/databases"
require "support/patience"
require "support/process_states"
require "neverblock"
require "neverblock/cli/delay_server"

# The application of test/jobs/app in this process, which enqueues and looks, and processes of its
# queue, which work.
module QueueApp
  ROOT = File.expand_path("app", __dir__)
  SOURCES = File.expand_path("../..", __dir__)
  FOLDER = Dir.mktmpdir("nb-jobs")
  Minitest.after_run { FileUtils.rm_rf(FOLDER) }

  # Seconds that a program may take to end, on a machine that does other work.
  LONGEST_STOP = 120

  # A running `bin/jobs` or `sidekiq`.
  Program = Struct.new(:pid, :waiter, :log) do
    def stop(signal = :TERM)
      Process.kill(signal, pid)
      waiter.join(LONGEST_STOP) or raise "#{pid} runs #{LONGEST_STOP} s after #{signal}:\n#{tell}"
      waiter.value
    end

    # Nothing of it and its children is left to run.
    def kill
      Process.kill(:KILL, -pid)
      waiter.join
    rescue Errno::ESRCH
      nil
    end

    # What it has said, and what it and its children do at this moment.
    def tell = [File.read(log), ProcessStates.of_group(pid)].join("\n")

    # @return [Array<String>] what NeverBlock has said of children that hung in their fork
    def unborn = File.readlines(log).grep(/did not begin within/)
  end

  module_function

  # What a program of the application is told.
  def environment(**more)
    { "APP_ADAPTER" => "neverblock_#{@adapter}", "APP_DATABASE_PORT" => place&.port.to_s,
      "APP_DATABASE" => place ? place.database : "#{FOLDER}/app.sqlite3",
      "APP_SERVICE" => service.port.to_s, "RAILS_ENV" => "test", "APP_QUEUE" => @queue,
      **more.transform_keys(&:to_s) }
  end

  # @return [Databases::Place, nil] of the database server; SQLite has none
  def place
    case @adapter
    when "postgresql" then Databases.postgresql
    when "mysql2", "trilogy" then Databases.mariadb
    end
  end

  # A service that answers after `?ms=`.
  def service
    @service ||= NB::DelayServer.new.tap { |server| Thread.new { server.run } }
  end

  # @param queue [String] a gem
  # @return [Boolean] whether this Ruby has it
  def there?(queue) = Gem::Specification.find_all_by_name(queue).any?

  # Loads the application into this process, with empty tables.
  # @param queue [String] a gem
  # @param adapter [String] ActiveRecord's
  def load(queue, adapter: "postgresql")
    @queue = queue
    @adapter = adapter
    ENV.update(environment)
    require_relative "app/environment"
    Minitest.after_run { ActiveRecord::Base.connection_handler.clear_all_connections!(:all) }
    ActiveRecord::Migration.suppress_messages { create_tables }
    ActiveJob::Base.logger = nil
  end

  def create_tables
    solid_queue, good_job = Gem.loaded_specs.values_at("solid_queue", "good_job")
    Kernel.load(template(solid_queue, "queue_schema.rb")) if solid_queue
    create_good_jobs(template(good_job, "create_good_jobs.rb.erb")) if good_job
    ActiveRecord::Schema.define do
      create_table(:notes, force: true) do |t|
        t.string :kind, null: false
        t.integer :number, :pid, null: false
        t.text :text
      end
    end
  end

  def template(gem, name) = Dir["#{gem.full_gem_path}/lib/generators/**/#{name}"].first

  def create_good_jobs(file)
    return if ActiveRecord::Base.connection.table_exists?(:good_jobs)

    migration_version = "[#{ActiveRecord::Migration.current_version}]" # rubocop:disable Lint/UselessAssignment -- the template's
    Object.class_eval(ERB.new(File.read(file)).result(binding))
    CreateGoodJobs.migrate(:up)
  end

  def empty
    tables = ActiveRecord::Base.connection.tables - %w[schema_migrations ar_internal_metadata]
    ActiveRecord::Base.connection.truncate_tables(*tables)
  end

  # @param recurring [Hash, nil] of config/recurring.yml
  # @param worker [Hash] of config/queue.yml
  # @return [Program]
  def start(env: {}, recurring: nil, **worker)
    config = "#{FOLDER}/queue.yml"
    File.write(config, YAML.dump(queue(**worker)))
    schedule = "#{FOLDER}/recurring.yml"
    File.write(schedule, YAML.dump(recurring)) if recurring
    run("#{ROOT}/bin_jobs.rb", "-c", config,
        *(recurring ? ["--recurring_schedule_file", schedule] : "--skip-recurring"), env: env)
  end

  # Puma with `plugin :solid_queue`, which forks the supervisor.
  # @param plugins [Array<Symbol>] of Puma
  # @param worker [Hash] of config/queue.yml
  # @return [Program]
  def puma(*plugins, env: {}, **worker)
    queues = "#{FOLDER}/queue.yml"
    File.write(queues, YAML.dump(queue(**worker)))
    config = "#{FOLDER}/puma.rb"
    File.write(config, ["require '#{SOURCES}/test/support/puma_stop'", "bind 'tcp://127.0.0.1:0'",
                        *plugins.map { |name| "plugin :#{name}" }].join("\n"))
    run(Gem.bin_path("puma", "puma"), "-C", config, "#{ROOT}/config.ru",
        env: { SOLID_QUEUE_CONFIG: queues, SOLID_QUEUE_SKIP_RECURRING: "1",
               RUBYLIB: "#{SOURCES}/lib", **env })
  end

  # @param config [Hash] of config/sidekiq.yml
  # @return [Program]
  def sidekiq(env: {}, **config)
    file = "#{FOLDER}/sidekiq.yml"
    File.write(file, YAML.dump(config))
    run(Gem.bin_path("sidekiq", "sidekiq"), "-C", file, "-r", "#{ROOT}/environment.rb",
        "-e", "test", env: { APP_EXIT_NOTE: "1", **env })
  end

  # @param arguments [Array<String>] of the command
  # @param settings [Hash] of GoodJob, each GOOD_JOB_… in the environment
  # @return [Program]
  def good_job(env: {}, arguments: [], **settings)
    told = settings.to_h { |name, value| ["GOOD_JOB_#{name.upcase}", value.to_s] }
    run(Gem.bin_path("good_job", "good_job"), "start", *arguments,
        env: { APP_EXIT_NOTE: "1", **env, **told }, chdir: folder)
  end

  # `nb jobs` in a folder of its own, with the files of an application.
  # @return [Program]
  def nb_jobs(*words, env: {}, **files)
    run("#{SOURCES}/exe/nb", "jobs", *words, env: { RUBYLIB: "#{SOURCES}/lib", **env },
                                             chdir: folder(**files))
  end

  def folder(**files)
    folder = Dir.mktmpdir("app", FOLDER)
    FileUtils.mkdir("#{folder}/config")
    files[:"environment.rb"] = "require #{"#{ROOT}/environment".dump}\n"
    files.each do |name, text|
      FileUtils.mkdir_p(File.dirname("#{folder}/config/#{name}"))
      File.write("#{folder}/config/#{name}", text)
    end
    folder
  end

  def run(*words, env: {}, **options)
    log = "#{FOLDER}/#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)}.log"
    pid = Process.spawn(environment(**env), RbConfig.ruby, *words,
                        pgroup: true, out: log, err: %i[child out], **options)
    Program.new(pid, Process.detach(pid), log)
  end

  def queue(**worker)
    { "test" => { "dispatchers" => [{ "polling_interval" => 0.1, "batch_size" => 500 }],
                  "workers" => [{ "queues" => "*", "polling_interval" => 0.05,
                                  **worker.transform_keys(&:to_s) }] } }
  end
end

require_relative "gate"

# What the tests of all queues have in common.
module QueueApp::Common
  include Patience

  # Of 60 items, some are left for long enough to end the process in the middle.
  SLOW_ITEMS = { APP_ITEM_SECONDS: "0.25" }.freeze

  def teardown
    told = failures.any? { |failure| failure.message.include?("processes of group") }
    puts so_far if failures.any? && !told
    @programs&.each(&:kill)
    @gate&.close
    puts @programs&.flat_map(&:unborn)
  end

  private

  # Whole programs begin, and hundreds of jobs are done: on a busy machine that takes longer than
  # what other tests wait for. Nothing is said of how long: what never comes is told later.
  def eventually(seconds = 240) = super

  # @return [Hash] for the environment of a program, so that calls wait for each other
  def gate(count)
    @gate&.close
    { APP_SERVICE: (@gate = QueueApp::Gate.new(count)).port }
  end

  def stop(signal = :TERM) = @programs.last.stop(signal).exitstatus

  # @param words [Regexp] what a program has said that does not run with its settings
  def assert_refused(words)
    program = @programs.last
    assert program.waiter.join(QueueApp::LONGEST_STOP), "#{program.pid} still runs"
    assert_equal 1, program.waiter.value.exitstatus
    assert_match words, File.read(program.log)
  end

  # With a queue's own program.
  def assert_negative_fibers_refused
    start(fibers: -3)
    assert_refused(/fibers: must be true, false or a number of fibers, got: "?-3"?/)
  end

  def enqueue(job, count, *arguments)
    ActiveJob.perform_all_later((1..count).map { |number| job.new(number, *arguments) })
  end

  def notes(kind) = Note.where(kind: kind)
  def exit_notes = notes("exit").pluck(:text)
  def logs = @programs.map { |one| File.read(one.log) }.join
  def so_far = @programs&.map(&:tell)&.join("\n")

  def calls = notes("called").pluck(:text).map(&:split)

  # Nothing of the first runs was kept but that they began.
  def assert_run_again(count)
    assert_equal({ "again" => count }, notes("ended").group(:text).count)
    assert_equal (1..count).to_a, notes("began").order(:number).pluck(:number)
    assert_empty notes("half")
  end

  # Jobs that make of their stop what would be retried, or would fail.
  def enqueue_turning
    jobs = [TurningJob, RetryingJob, RescuingJob, AgainJob]
    ActiveJob.perform_all_later(jobs.each.with_index(1).map { |job, n| job.new(n, 60) })
    eventually { notes("began").count == jobs.size }
    jobs.size
  end

  # Three jobs with 60 items each: the block ends the process, with SLOW_ITEMS, in the middle.
  def interrupt_steps
    ActiveJob.perform_all_later((1..3).map { |number| StepsJob.new(number, 60) })
    eventually { notes("item").distinct.pluck(:number).size > 3 }
    yield
    assert_operator notes("item").count, :<, 180
    assert_empty notes("ended")
  end

  # Each item once, in two processes.
  def assert_steps_continue
    eventually { notes("ended").count == 3 }
    assert_equal 0, stop
    assert_equal((1..60).to_h { |number| [number, 3] }, notes("item").group(:number).count)
    assert_equal 2, notes("item").distinct.pluck(:pid).size
    assert_equal [1, 2, 3], notes("begun").order(:number).pluck(:number)
  end

  # Of the calls, which have noted when they began and ended.
  def most_at_once
    changes = calls.flat_map { |_, began, ended| [[began.to_f, 1], [ended.to_f, -1]] }.sort
    changes.each_with_object([0]) { |(_, change), counts| counts << (counts.last + change) }.max
  end
end

# What the tests of Solid Queue have in common.
module QueueApp::Tests
  include QueueApp::Common

  THERE = QueueApp.there?("solid_queue")
  MODES = { fibers: 100, threads: 5 }.freeze

  # @param adapter [String] ActiveRecord's
  # @return [Module] this one, with the application loaded
  def self.on(adapter)
    QueueApp.load("solid_queue", adapter: adapter) if THERE
    self
  end

  def setup
    THERE ? QueueApp.empty : skip("gem solid_queue is not there for Ruby #{RUBY_VERSION}")
  end

  private

  def start(**options)
    (@programs ||= []) << QueueApp.start(**options)
    @programs.last
  end

  # What a test that waits in vain has to say.
  def so_far
    executions = [SolidQueue::ReadyExecution, SolidQueue::ClaimedExecution, SolidQueue::Process]
    [super, executions.to_h { |one| [one.name, one.count] }, failed.tally,
     Note.group(:kind).count].join("\n")
  end

  def failed = SolidQueue::FailedExecution.all.map { |one| [one.exception_class, one.message] }
  def unfinished = SolidQueue::Job.where(finished_at: nil)
  def done = eventually { unfinished.none? }
  def worker = eventually { SolidQueue::Process.find_by(kind: "Worker") }

  def assert_none_left
    assert_empty SolidQueue::ClaimedExecution.all
    assert_empty SolidQueue::Process.all
  end

end

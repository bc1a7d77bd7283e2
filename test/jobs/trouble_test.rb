# frozen_string_literal: true

require "jobs/helper"

# What keeps `nb jobs` from its work, it says in one sentence.
class JobTroubleTest < Minitest::Test
  include QueueApp::Tests.on("postgresql")

  TABLES = { "solid_queue" => "solid_queue_processes", "good_job" => "good_job_processes" }.freeze
  # Of config/queue.yml, what is said of them.
  SETTINGS = {
    "test: [" => "config/queue.yml: did not find expected node content .* at line 2 column 1",
    "test: { workers: 3 }" => "config/queue.yml: workers: must be a list of settings, got: 3"
  }.freeze
  NO_NUMBERS = [0, -1, 1.5, "10", true, nil].freeze

  def test_a_database_that_does_not_answer
    TABLES.each_key do |name|
      nb_jobs(name, APP_DATABASE_PORT: "1")
      assert_one_sentence(/cannot use the database "\w+" \(primary of test\): .* refused/)
    end
  end

  def test_a_database_that_is_not_there
    TABLES.each_key do |name|
      nb_jobs(name, APP_DATABASE: "nowhere")
      assert_one_sentence(/cannot use the database "nowhere" .*"nowhere" does not exist: .*create/)
    end
  end

  def test_tables_that_are_not_there
    TABLES.each do |name, table|
      nb_jobs(name, APP_DATABASE: "postgres")
      assert_one_sentence(/the database "postgres" .* has no table #{table}: run bin.rails/)
    end
  end

  def test_a_file_that_is_no_settings
    SETTINGS.each do |text, words|
      nb_jobs("solid_queue", { "queue.yml": text })
      assert_one_sentence(/#{words}/)
    end
  end

  # Solid Queue itself would start a worker that claims nothing.
  def test_numbers_of_fibers_that_are_none
    NO_NUMBERS.each do |number|
      settings = SolidQueue::Configuration.new(workers: [{ fibers: number }], skip_recurring: true)
      refute_predicate settings, :valid?
      assert_equal ["fibers: must be a whole number of 1 or more, got: #{number.inspect}"],
                   settings.errors.full_messages
    end
    start(fibers: 0)
    assert_refused(/^fibers: must be a whole number of 1 or more, got: 0$/)
  end

  def test_a_number_of_the_environment_that_is_none
    nb_jobs("good_job", GOOD_JOB_FIBERS: "-3")
    assert_one_sentence(/fibers: must be true, false or a number of fibers, got: "-3"/)
  end

  def test_sidekiqs_settings
    nb_jobs("sidekiq", { "sidekiq.yml": "concurrency: x", "application.rb": "" })
    assert_one_sentence(%r{config/sidekiq.yml: concurrency: x is not a valid value})
    nb_jobs("sidekiq", { "sidekiq.yml": "fibers: 1.5", "application.rb": "" })
    assert_one_sentence(/fibers: must be true, false or a number of fibers, got: 1.5/)
  end

  def test_a_redis_that_does_not_answer
    nb_jobs("sidekiq", { "application.rb": "" }, REDIS_URL: "redis://127.0.0.1:1")
    assert_one_sentence(/cannot use Sidekiq's Redis: Connection refused .*127.0.0.1:1.*: start it/)
  end

  private

  def nb_jobs(name, files = {}, **env)
    @programs = [QueueApp.nb_jobs(name, env: { APP_QUEUE: name, **env }, **files)]
  end

  def assert_one_sentence(words)
    assert_refused(/^nb jobs: #{words}/)
    assert_equal 1, logs.lines.grep(/^nb jobs/).size
    refute_match(/^\s+from /, logs)
  end
end

# frozen_string_literal: true

require "jobs/sidekiq_case"

# Sidekiq with `fibers: true`, in a process of its own, on Redis; what its jobs do is noted in
# PostgreSQL. What is expected is what its threads do, which are tried too.
class SidekiqTest < Minitest::Test
  include QueueApp::SidekiqCase

  def test_a_hundred_wait_at_once_and_each_leaves_its_row
    start(fibers: true, concurrency: 100, env: gate(51))
    enqueue(CallJob, 200, 500)
    eventually { notes("called").count == 200 }
    assert_equal (1..200).to_a, notes("called").order(:number).pluck(:number)
    assert_operator most_at_once, :>, 50
    assert_equal 0, stop
    assert_nothing_left
  end

  # A capsule may have a number of its own.
  def test_a_number_of_fibers_is_how_many_wait_at_once
    start(fibers: 30, concurrency: 7, capsules: { mail: { queues: ["mail"], concurrency: 3 } },
          env: gate(30))
    enqueue(CallJob, 90, 500)
    eventually { notes("called").count == 90 }
    assert_equal 30, most_at_once
    Note.delete_all
    @gate.close_until(3)
    (1..9).each { |number| CallJob.set(queue: "mail").perform_later(number, 300) }
    eventually { notes("called").count == 9 }
    assert_equal 3, most_at_once
    assert_match(/fibers: 30 and concurrency: 7: 30 jobs run at once; leave one of the two/, logs)
    assert_equal 33, Sidekiq::ProcessSet.new.first["concurrency"]
    assert_equal 0, stop
  end

  # Also in a capsule that has no number.
  def test_a_number_that_an_initializer_has_set
    start(env: { APP_SIDEKIQ_FIBERS: "20", APP_CAPSULES: "none", **gate(20) })
    enqueue(CallJob, 60, 500)
    eventually { notes("called").count == 60 }
    assert_equal 20, most_at_once
    assert_equal 40, Sidekiq::ProcessSet.new.first["concurrency"]
    assert_equal 0, stop
    refute_match(/leave one/, logs)
  end

  def test_zero_fibers_are_threads
    start(fibers: 0, concurrency: 3, env: gate(3))
    enqueue(CallJob, 9, 200)
    eventually { notes("called").count == 9 }
    assert_equal 3, most_at_once
    assert_equal 0, stop
  end

  def test_a_number_that_is_none_is_refused = assert_negative_fibers_refused

  # By this id Sidekiq keeps what runs, and the Web UI shows it.
  def test_each_fiber_has_an_id_of_its_own
    start(fibers: true, concurrency: 10)
    enqueue(LongJob, 10, 60)
    eventually { notes("began").count == 10 }
    assert_equal 10, logs.scan(/tid=(\w+) .*\bclass=LongJob\b.*: start/).uniq.size
    stop(:KILL)
  end

  def test_state_does_not_cross
    start(fibers: true, concurrency: 10)
    enqueue(StateJob, 60)
    eventually { notes("state").count == 60 }
    assert_empty notes("mixed").pluck(:text)
  end

  def test_nb_jobs
    @programs = [QueueApp.nb_jobs("-f", "50", "sidekiq", "application.rb": "", env: gate(26))]
    enqueue(CallJob, 100, 500)
    eventually { notes("called").count == 100 }
    assert_operator most_at_once, :>, 25
    assert_equal 0, stop
  end

  def test_nb_jobs_keeps_what_an_initializer_has_set
    @programs = [QueueApp.nb_jobs("-f", "50", "sidekiq", "sidekiq.yml": "concurrency: 7\n",
                                                         "application.rb": "",
                                                         env: { APP_SIDEKIQ_FIBERS: "1",
                                                                **gate(7) })]
    enqueue(CallJob, 40, 200)
    eventually { notes("called").count == 40 }
    assert_equal 7, most_at_once
    assert_equal 0, stop
  end

  OFF = { "NeverBlock's part for it is off \\(sidekiq .* off": { NB_DRIVERS: "-sidekiq" },
          "config.neverblock.enabled is false": { APP_DISABLED: "1", APP_ADAPTER: "postgresql" } }
        .freeze

  # Not as many as fibers.
  def test_nb_jobs_leaves_threads_where_neverblock_is_off
    OFF.each.with_index(1) do |(reason, env), round|
      env = { **env, **gate(7) }
      @programs = [QueueApp.nb_jobs("-f", "50", "sidekiq", env: env, "application.rb": "",
                                                           "sidekiq.yml": "concurrency: 7\n")]
      enqueue(CallJob, 40, 200)
      eventually { notes("called").count == 40 * round }
      assert_equal 7, most_at_once
      assert_match(/nb jobs: #{reason}.*: sidekiq runs as the application has set it/, logs)
      assert_equal 0, stop
    end
  end

  # One that is not installed, and one that the application does not load.
  def test_nb_jobs_names_a_gem_that_the_application_has_not
    nowhere = "Gem.paths = { 'GEM_HOME' => #{QueueApp::FOLDER.dump}, 'GEM_PATH' => '' }\n"
    { "sidekiq" => nowhere, "good_job" => "" }.each do |name, boot|
      program = QueueApp.nb_jobs(name, "boot.rb": boot)
      program.waiter.join
      assert_equal ["nb jobs: the application has no gem #{name}: put it into the Gemfile\n"],
                   File.readlines(program.log).first(1)
      assert_equal 1, program.waiter.value.exitstatus
    end
  end

  # Rails would return it.
  KEEPING = <<~'RUBY'
    require "sidekiq"
    require "active_record"
    require "neverblock"
    ActiveRecord::Base.establish_connection(JSON.parse(ENV.fetch("PLACE")))
    class KeepingJob
      include Sidekiq::Job
      def perform(number)
        ActiveRecord::Base.lease_connection.select_value("SELECT 1")
        sleep 0.01
        Sidekiq.redis { |redis| redis.call("RPUSH", "kept", number) }
      end
    end
  RUBY

  def test_a_connection_that_a_job_keeps_comes_back_without_rails
    files = { "jobs.rb": KEEPING, "sidekiq.yml": "fibers: true\nconcurrency: 5\n" }
    folder = "#{QueueApp.folder(**files)}/config"
    place = { adapter: "neverblock_postgresql", connections: 1, checkout_timeout: 3,
              **Databases.postgresql.options }
    jobs = (1..10).map { |number| [number] }
    Sidekiq::Client.push_bulk("class" => "KeepingJob", "args" => jobs, "retry" => false)
    @programs = [QueueApp.run(
      Gem.bin_path("sidekiq", "sidekiq"), "-r", "#{folder}/jobs.rb", "-C", "#{folder}/sidekiq.yml",
      env: { RUBYLIB: "#{QueueApp::SOURCES}/lib", PLACE: JSON.generate(place) }
    )]
    eventually { Sidekiq::Queue.new.size.zero? && Sidekiq::WorkSet.new.size.zero? }
    eventually { Sidekiq.redis { |redis| redis.call("LLEN", "kept") } == 10 }
    assert_equal 0, stop
  end

  # The loop's thread ends with all its fibers, and another one takes their place. What runs is
  # cancelled, so Sidekiq retries it; only the killer is lost, as with threads. What Redis hands out
  # at this moment may be lost, too.
  def test_a_job_that_kills_its_thread_ends_no_process
    start(fibers: true, concurrency: 5, env: gate(1))
    enqueue(LongJob, 2, 60)
    eventually { notes("began").count == 2 }
    KillingJob.perform_later(3)
    eventually { CallJob.perform_later(0, 1) && notes("called").any? }
    @gate.close_until(5)
    enqueue(CallJob, 50, 300)
    eventually { notes("called").where("number > 0").count == 50 }
    assert_equal 5, most_at_once
    eventually { notes("ended").where(text: "again").count == 2 }
    assert_empty notes("half")
    assert_equal 0, stop
  end

  # As a library does that reads in a thread of its own, when its connection breaks.
  def test_what_a_thread_raises_in_the_loops_thread_ends_no_job
    start(fibers: true, concurrency: 5, timeout: 2)
    enqueue(LongJob, 2, 60)
    eventually { notes("began").count == 2 }
    enqueue(StrayJob, 1)
    eventually { logs.include?("the connection broke") }
    enqueue(CallJob, 5, 10)
    eventually { notes("called").count == 5 }
    assert_equal [0, 0], [notes("tidied").count, notes("ended").count]
    assert_equal 0, stop
  end

  MODES.each do |mode, fibers|
    # With fibers, each has a loop of its own.
    define_method("test_two_capsules_and_a_middleware_with_#{mode}") do
      start(fibers: fibers, concurrency: 5, timeout: 4, env: { APP_CAPSULES: "1", **gate(10) })
      both = %w[default other].product((1..20).to_a)
      both.each { |queue, number| CallJob.set(queue: queue).perform_later(number, 500) }
      eventually { notes("called").count == 40 }
      assert_equal 10, most_at_once
      assert_equal({ "default" => 20, "other" => 20 }, notes("through").group(:text).count)
      %w[default other].each { |queue| LongJob.set(queue: queue).perform_later(queue.size, 60) }
      eventually { notes("began").count == 2 }
      assert_equal 0, stop
      assert_equal [1, 1], %w[default other].map { |name| Sidekiq::Queue.new(name).size }
      assert_match(/busy 0, dead 0/, exit_notes.first)
    end

    define_method("test_failing_jobs_are_retried_with_#{mode}") do
      start(fibers: fibers, concurrency: 10)
      enqueue(FailingJob, 20)
      eventually { Sidekiq::RetrySet.new.size == 20 }
      errors = Sidekiq::RetrySet.new.map { |one| one.item.values_at("error_class", "error_message") }
      assert_equal (1..20).map { |n| ["FailingJob::Broken", "job #{n}"] }.sort, errors.sort
      assert_empty notes("lost")
      Sidekiq::RetrySet.new.clear
      enqueue(CallJob, 20, 10) # the processors have been replaced
      eventually { notes("called").count == 20 }
      assert_equal 0, stop
      assert_nothing_left
    end

    define_method("test_term_lets_jobs_end_with_#{mode}") do
      start(fibers: fibers, concurrency: 10)
      enqueue(LongJob, 5, 1)
      eventually { notes("began").count == 5 }
      assert_equal 0, stop
      assert_equal({ "at once" => 5 }, notes("ended").group(:text).count)
      assert_nothing_left
    end

    # With a timeout below the 2 s of their questions for jobs, idle threads are struck just when
    # Redis gives them what was pushed back, which is lost. Idle fibers push it back again.
    define_method("test_what_term_does_not_wait_for_runs_again_with_#{mode}") do
      start(fibers: fibers, concurrency: 10, timeout: fibers ? 1 : 4)
      enqueue(LongJob, 5, 60)
      eventually { notes("began").count == 5 }
      assert_equal 0, stop
      assert_equal 5, Sidekiq::Queue.new.size
      assert_equal 5, notes("tidied").count
      assert_empty notes("half")
      start(fibers: fibers, concurrency: 10)
      eventually { notes("ended").where(text: "again").count == 5 }
    end

    # In the process, Sidekiq's own retries know of the stop; Active Job's do not.
    define_method("test_a_job_that_makes_an_error_of_its_stop_runs_again_with_#{mode}") do
      start(fibers: fibers, concurrency: 10, timeout: fibers ? 1 : 4)
      count = enqueue_turning
      assert_equal 0, stop
      twice = fibers ? 0 : Sidekiq::Queue.new.size + Sidekiq::ScheduledSet.new.size - count
      assert_operator Sidekiq::Queue.new.size, :>=, count
      start(fibers: fibers, concurrency: 10)
      eventually { notes("ended").where(text: "again").count == count + twice }
      assert_equal 0, stop
      assert_equal count, notes("ended").count if fibers
      assert_nothing_left
    end

    define_method("test_an_iterable_job_continues_where_term_has_interrupted_it_with_#{mode}") do
      start(fibers: fibers, concurrency: 10, env: SLOW_ITEMS)
      3.times { ItemsJob.perform_async(60) }
      eventually { notes("item").distinct.pluck(:number).size > 3 }
      assert_equal 0, stop
      assert_operator notes("item").count, :<, 180
      start(fibers: fibers, concurrency: 10)
      eventually { notes("item").count >= 180 }
      assert_equal 0, stop
      assert_equal((1..60).to_h { |number| [number, 3] }, notes("item").group(:number).count)
      assert_equal 2, notes("item").distinct.pluck(:pid).size
      assert_nothing_left
    end

    define_method("test_steps_continue_where_term_has_interrupted_them_with_#{mode}") do
      start(fibers: fibers, concurrency: 10, env: SLOW_ITEMS)
      interrupt_steps { assert_equal 0, stop }
      start(fibers: fibers, concurrency: 10)
      assert_steps_continue
    end

    define_method("test_tstp_takes_no_more_jobs_with_#{mode}") do
      start(fibers: fibers, concurrency: 10)
      enqueue(LongJob, 1, 1)
      eventually { notes("began").count == 1 }
      Process.kill(:TSTP, @programs.last.pid)
      eventually { logs.include?("no longer accepting new work") }
      eventually { notes("ended").count == 1 }
      eventually { Sidekiq.redis { |redis| redis.info["blocked_clients"] == "0" } }
      enqueue(CallJob, 5, 10)
      assert_equal 0, stop
      assert_equal 5, Sidekiq::Queue.new.size
    end
  end

  private

  def start(env: {}, **config)
    (@programs ||= []) << QueueApp.sidekiq(env: env, **config.transform_keys(&:to_s))
    @programs.last
  end

  def assert_nothing_left
    assert_equal [0, 0, 0], [Sidekiq::Queue, Sidekiq::RetrySet, Sidekiq::WorkSet].map { |set| set.new.size }
  end
end

# frozen_string_literal: true

require "rails/helper"

# Active Job's `:async`, whose jobs run in fibers of a loop, beside the same in threads.
class RailsAsyncJobsTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  # Tells when it has run, and may end by `exit`.
  class TellingJob < ApplicationJob
    class << self
      attr_accessor :told
    end

    def perform(text)
      sleep(0.01)
      exit(3) if text == "exit"
      raise "told #{text}" if text == "fail"
      self.class.told << text
    end
  end

  def setup
    @adapter = ActiveJob::QueueAdapters::AsyncAdapter.new(max_threads: 2)
    TellingJob.queue_adapter = @adapter
    TellingJob.told = Thread::Queue.new
    @logger = Concurrent.global_logger
    Concurrent.global_logger = Concurrent::NULL_LOGGER # it would report the exits of threads
  end

  def teardown
    @adapter.shutdown
    Concurrent.global_logger = @logger
  end

  RUNS = { threads: ->(&block) { block.call }, fibers: ->(&block) { NB.run(&block) } }.freeze

  RUNS.each do |mode, run|
    define_method("test_exit_ends_the_job_alone_with_#{mode}") do
      reports = capture_io do
        run.call do
          TellingJob.perform_later("exit")
          TellingJob.set(wait: 0.03.seconds).perform_later("exit")
          TellingJob.set(wait: 0.06.seconds).perform_later("later")
          assert_equal "later", told
        end
      rescue SystemExit
        flunk "exit has ended the program"
      end
      expected = mode == :fibers ? 2 : 0
      assert_equal expected, reports.last.scan(/:async called exit:\n.*SystemExit/).size
    end

    # By the log and by Rails' error reporter alone.
    define_method("test_an_error_is_reported_once_with_#{mode}") do
      errors = Thread::Queue.new
      log = StringIO.new
      output = capture_io do
        reporting(log, errors) do
          run.call do
            %w[fail later].each { |text| TellingJob.perform_later(text) }
            assert_equal "later", told
            @adapter.shutdown
          end
        end
      end
      assert_equal ["", ""], output
      assert_equal ["told fail"], Array.new(errors.size) { errors.pop.message }
      assert_equal 1, log.string.scan(/Error performing .*told fail/).size
    end

    define_method("test_a_shutdown_waits_for_jobs_and_runs_later_ones_at_once_with_#{mode}") do
      run.call do
        %w[1 2 3 4 5].each { |text| TellingJob.perform_later(text) }
        @adapter.shutdown
        assert_equal 5, TellingJob.told.size
        TellingJob.perform_later("late")
        assert_equal 6, TellingJob.told.size
      end
    end

    define_method("test_a_shutdown_that_does_not_wait_loses_no_job_with_#{mode}") do
      run.call do
        %w[1 2 3 4 5].each { |text| TellingJob.perform_later(text) }
        @adapter.shutdown(wait: false)
        assert_equal %w[1 2 3 4 5], Array.new(5) { told }.sort
      end
    end

    define_method("test_delayed_jobs_run_in_the_order_of_their_times_with_#{mode}") do
      run.call do
        { "3" => 0.3, "1" => 0.1, "2" => 0.2 }.each do |text, seconds|
          TellingJob.set(wait: seconds.seconds).perform_later(text)
        end
        assert_equal %w[1 2 3], Array.new(3) { told }
        TellingJob.set(wait: 0.01.seconds).perform_later("4")
        assert_equal "4", told
      end
    end
  end

  # No fiber may be made for it, or the adapter has been shut down, so it runs in ours.
  def test_delayed_jobs_come_after_one_that_could_not_begin
    { FiberError => "no room", SystemExit => "exit" }.each do |type, message|
      report = capture_io do
        NB.run do
          adapter_refuses_once(type.new(message))
          { "refused" => 0.01, "next" => 0.02 }.each do |text, seconds|
            TellingJob.set(wait: seconds.seconds).perform_later(text)
          end
          assert_equal "next", told
        end
      end.last
      assert_match(/a delayed job of Active Job's :async did not begin:\n.*#{message}/, report)
    end
  end

  # A fiber for each would need two of the system's memory mappings, and it allows 65,530.
  def test_one_fiber_waits_for_all_delayed_jobs
    NB.run do
      maps = memory_mappings
      100.times { TellingJob.set(wait: 1.hour).perform_later("much later") }
      assert_operator memory_mappings - maps, :<, 100
    end
  end

  # The child of a fork has the parent's list, too.
  def test_a_child_runs_no_delayed_jobs_of_its_parent
    NB.run do
      TellingJob.set(wait: 0.01.seconds).perform_later("parent's")
      child = fork do
        NB.run { TellingJob.set(wait: 0.02.seconds).perform_later("child's") && sleep(0.1) }
        exit!(TellingJob.told.size == 1)
      end
      assert_predicate Process.wait2(child).last, :success?
    end
  end

  private

  def adapter_refuses_once(error)
    scheduler = @adapter.instance_variable_get(:@scheduler)
    scheduler.define_singleton_method(:fibers) do
      singleton_class.remove_method(:fibers)
      raise error
    end
  end

  def memory_mappings = File.foreach("/proc/self/maps").count

  def reporting(log, errors)
    logger = ActiveJob::Base.logger
    subscriber = Object.new
    subscriber.define_singleton_method(:report) { |error, **| errors << error }
    Rails.error.subscribe(subscriber)
    ActiveJob::Base.logger = ActiveSupport::TaggedLogging.new(ActiveSupport::Logger.new(log))
    yield
  ensure
    ActiveJob::Base.logger = logger
    Rails.error.unsubscribe(subscriber)
  end

  def told = Timeout.timeout(20) { TellingJob.told.pop }
end

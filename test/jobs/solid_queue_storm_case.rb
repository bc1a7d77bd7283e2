# frozen_string_literal: true

require "jobs/storm/solid_queue"

# Three crews of Solid Queue over one database, of which processes are killed, stopped and started
# anew, and the database restarted: no job is lost, and none runs twice but those that Solid Queue
# has declared to have failed, and those whose end it could not write down.
module QueueApp::SolidQueueStormCase
  include QueueApp::StormAssertions

  # @param adapter [String] ActiveRecord's
  # @return [Module] this one, with the application loaded
  def self.on(adapter)
    QueueApp.load("solid_queue", adapter: adapter) if QueueApp.there?("solid_queue")
    self
  end

  def setup
    return skip("gem solid_queue is not there for Ruby #{RUBY_VERSION}") unless
      QueueApp.there?("solid_queue")
    return skip(QueueApp::Storm::BY_NAME) unless ENV["NB_STORM"]

    QueueApp.empty
  end

  # What is expected is what threads do, which are tried too.
  { fibers: 50, threads: 10 }.each do |mode, size|
    define_method("test_nothing_is_lost_with_#{mode}") { assert_nothing_lost(mode => size) }

    define_method("test_a_restart_of_the_database_loses_nothing_with_#{mode}") do
      assert_nothing_lost_by_restarts(mode => size)
    end
  end

  private

  def assert_nothing_lost(**worker)
    storm = storm(worker).run(:kill_worker, :stop_crew, :kill_crew)
    assert_sound storm
    assert_empty storm.doubled_unasked
    assert_empty storm.retried.keys - QueueApp::SolidQueueStorm::FATES - own_errors
  end

  # SQLite's writers stand in no line: on a busy machine one may wait longer than its timeout.
  def own_errors = QueueApp.place ? [] : %w[ActiveRecord::StatementTimeout]

  # A job whose end cannot be written down runs again when its worker has been replaced.
  def assert_nothing_lost_by_restarts(**worker)
    return skip("SQLite has no server") unless QueueApp.place

    storm = storm(worker).run(:kill_worker, :restart_database, :stop_crew)
    assert_sound storm
    assert_operator storm.doubled_unasked.size, :<=, storm.at_once
  end

  def storm(worker) = QueueApp::SolidQueueStorm.new(**worker)
end

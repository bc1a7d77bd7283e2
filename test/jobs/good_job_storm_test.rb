# frozen_string_literal: true

require "jobs/good_job_case"
require "jobs/storm/good_job"

# Processes of GoodJob that are killed, stopped and started anew over one queue, and the database
# restarted: no job is lost, and none runs twice but those that GoodJob calls interrupted, and those
# that ran when the database was restarted.
class GoodJobStormTest < Minitest::Test
  include QueueApp::GoodJobCase
  include QueueApp::StormAssertions

  def setup
    return skip(QueueApp::Storm::BY_NAME) unless ENV["NB_STORM"]

    super
  end

  MODES.each do |mode, settings|
    define_method("test_nothing_is_lost_with_#{mode}") do
      storm = storm(settings).run(:kill_crew, :stop_crew, :kill_crew)
      assert_sound storm
      assert_empty storm.doubled_unasked
    end

    # The locks by which processes show that they live are gone with the database's connections, so
    # the first process that has its own back takes the jobs of the others for interrupted.
    define_method("test_a_restart_of_the_database_loses_nothing_with_#{mode}") do
      storm = storm(settings).run(:kill_crew, :restart_database, :stop_crew)
      assert_sound storm
      assert_operator storm.doubled_unasked.size, :<=, storm.at_once
    end
  end

  private

  def storm(settings) = QueueApp::GoodJobStorm.new(**SHARING, **settings)
end

# frozen_string_literal: true

require "jobs/good_job_case"
require "jobs/storm/good_job"

# Processes of GoodJob that are killed, stopped and started anew over one queue, and the database
# restarted: no job is lost, and none runs twice but those that GoodJob calls interrupted.
class GoodJobStormTest < Minitest::Test
  include QueueApp::GoodJobCase

  def setup
    return skip(QueueApp::Storm::BY_NAME) unless ENV["NB_STORM"]

    super
  end

  MODES.each_key do |mode|
    define_method("test_nothing_is_lost_with_#{mode}") do
      settings = { **SHARING, **MODES[mode] }
      storm = QueueApp::GoodJobStorm.new(**settings)
      storm.run(:kill_crew, :stop_crew, :kill_crew, :restart_database)
      puts storm.summary
      assert_empty storm.lost
      assert_empty storm.torn
      assert_empty storm.crossed
      assert_empty storm.doubled_unasked
    end
  end
end

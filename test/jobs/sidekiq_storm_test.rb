# frozen_string_literal: true

require "jobs/sidekiq_case"
require "jobs/storm/sidekiq"

# Processes of Sidekiq that are killed, stopped and started anew over one queue, and Redis and the
# database restarted: no job is lost but those that ran in a process when it was killed, or were on
# their way to one when Redis ended. These are lost with threads, too.
class SidekiqStormTest < Minitest::Test
  include QueueApp::SidekiqCase
  include QueueApp::StormAssertions

  # Jobs that a restart of Redis may meet between it and the processes; 2 were the most seen.
  ON_THEIR_WAY = 5

  def setup
    return skip(QueueApp::Storm::BY_NAME) unless ENV["NB_STORM"]

    super
  end

  MODES.each do |mode, fibers|
    define_method("test_kills_lose_what_runs_and_nothing_else_with_#{mode}") do
      storm = storm(fibers).run(:kill_crew, :stop_crew, :kill_crew)
      assert_sound storm
      assert_operator storm.lost.size, :<=, storm.allowance
    end

    define_method("test_restarts_of_redis_and_the_database_lose_what_comes_with_#{mode}") do
      storm = storm(fibers).run(:restart_redis, :restart_database)
      assert_sound storm, doubles: storm.at_once
      assert_operator storm.lost.size, :<=, ON_THEIR_WAY
    end
  end

  private

  def storm(fibers)
    QueueApp::SidekiqStorm.new(fibers: fibers, concurrency: 20)
  end

  # @param doubles [Integer] how many jobs may have run twice: those that ran in a restart
  def assert_sound(storm, doubles: 0)
    assert_whole(storm)
    assert_operator storm.doubled.size, :<=, doubles
  end
end

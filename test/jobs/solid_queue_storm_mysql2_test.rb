# frozen_string_literal: true

require "jobs/solid_queue_storm_case"

class SolidQueueStormMysql2Test < Minitest::Test
  include QueueApp::SolidQueueStormCase.on("mysql2")
end

# frozen_string_literal: true

require "jobs/solid_queue_storm_case"

class SolidQueueStormSQLite3Test < Minitest::Test
  include QueueApp::SolidQueueStormCase.on("sqlite3")
end

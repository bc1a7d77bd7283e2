# frozen_string_literal: true

require "jobs/solid_queue_storm_case"

class SolidQueueStormTest < Minitest::Test
  include QueueApp::SolidQueueStormCase.on("postgresql")
end

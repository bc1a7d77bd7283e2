# frozen_string_literal: true

require "jobs/solid_queue_storm_case"

class SolidQueueStormTrilogyTest < Minitest::Test
  include QueueApp::SolidQueueStormCase.on("trilogy")
end

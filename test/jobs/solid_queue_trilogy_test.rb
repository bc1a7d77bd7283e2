# frozen_string_literal: true

require "jobs/solid_queue_adapter_case"

class SolidQueueTrilogyTest < Minitest::Test
  include QueueApp::SolidQueueAdapterCase.on("trilogy")
end

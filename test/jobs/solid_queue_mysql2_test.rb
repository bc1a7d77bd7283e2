# frozen_string_literal: true

require "jobs/solid_queue_adapter_case"

class SolidQueueMysql2Test < Minitest::Test
  include QueueApp::SolidQueueAdapterCase.on("mysql2")
end

# frozen_string_literal: true

require "jobs/solid_queue_adapter_case"

class SolidQueueSQLiteTest < Minitest::Test
  include QueueApp::SolidQueueAdapterCase.on("sqlite3")
end

# frozen_string_literal: true

require "jobs/helper"

# What the tests of Sidekiq have in common.
module QueueApp::SidekiqCase
  include QueueApp::Common

  THERE = QueueApp.there?("sidekiq")
  if THERE
    ENV["REDIS_URL"] = Databases.redis.url
    QueueApp.load("sidekiq")
    require "sidekiq/api"
    Sidekiq.default_configuration.logger = nil
  end
  MODES = { fibers: true, threads: false }.freeze

  def setup
    skip("gem sidekiq is not there for Ruby #{RUBY_VERSION}") unless THERE

    QueueApp.empty
    Sidekiq.redis(&:flushdb)
  end
end

# frozen_string_literal: true

require "logger"
require "rails"
require "action_controller/railtie"
require "active_record/railtie"
require "rack/timeout/base"

# Everything that keeps fibers from working well.
class WrongApplication < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "no secret"
  config.active_support.isolation_level = :thread
  config.allow_concurrency = false
  config.middleware.use Rack::Timeout
  config.redis = { driver: :hiredis }
end

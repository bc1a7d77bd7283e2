# frozen_string_literal: true

require "logger"
require "rails"
require "action_controller/railtie"
require "active_record/railtie"

# As an application should be.
class GoodApplication < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "no secret"
  config.active_support.isolation_level = :fiber
end

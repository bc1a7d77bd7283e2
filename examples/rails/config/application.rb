# frozen_string_literal: true

require_relative "boot"
require "logger"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "neverblock" unless ENV["NEVERBLOCK"] == "0" # what bin/demo compares with

# The shop.
class Shop < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = Rails.env.production?
  config.enable_reloading = !Rails.env.production?
  config.consider_all_requests_local = !Rails.env.production?
  config.logger = Logger.new($stderr)
  config.log_level = Rails.env.production? ? :warn : :info
  config.secret_key_base = "an example has no secrets"
  config.public_file_server.enabled = true
  config.active_record.migration_error = false
  config.hosts.clear
end

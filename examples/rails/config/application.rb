# frozen_string_literal: true

require_relative "boot"
require "logger"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "active_job/railtie"
require "action_view/railtie"
require "solid_queue" if ENV["QUEUE"] == "solid_queue"
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
  config.active_job.queue_adapter = ENV.fetch("QUEUE", "async").to_sym
  config.solid_queue.connects_to = { database: { writing: :queue } } if defined?(SolidQueue)
  config.hosts.clear
end

# frozen_string_literal: true

# What the bench's Rails applications share: production mode, and the middleware of a new
# application. The environment says which adapter, and whether fibers are isolated.

require "logger"
require "rails"
require "action_controller/railtie"
require "active_record/railtie"
require "neverblock" if ENV["BENCH_ADAPTER"] # as the line in a Gemfile would

# @example
#   class Shop < Rails::Application
#     RailsSettings.apply(config, __dir__)
#   end
module RailsSettings
  # @param config [Rails::Application::Configuration]
  # @param root [String] the application's folder
  # @return [void]
  def self.apply(config, root)
    config.root = root
    config.load_defaults Rails::VERSION::STRING.to_f
    config.eager_load = true
    config.enable_reloading = false
    config.consider_all_requests_local = false
    config.secret_key_base = "a bench has no secrets"
    config.logger = Logger.new($stderr)
    config.log_level = :error
    config.active_record.maintain_test_schema = false
    config.active_support.isolation_level = ENV.fetch("BENCH_ISOLATION", "thread").to_sym
  end
end

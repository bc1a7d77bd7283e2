# frozen_string_literal: true

Rails.application.configure do
  config.enable_reloading = true
  config.eager_load = false
  config.consider_all_requests_local = true
  # A test writes its own classes somewhere else than into the project.
  config.autoload_paths << ENV["APP_CLASSES"] if ENV["APP_CLASSES"]
end

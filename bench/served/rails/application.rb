# frozen_string_literal: true

# Two of TechEmpower's pages in Rails, in production mode with the middleware of a new application.
# The environment says which adapter, how many connections, and whether fibers are isolated.

require "logger"
require "rails"
require "action_controller/railtie"
require "action_view/railtie"
require "active_record/railtie"
require "neverblock" if ENV["BENCH_ADAPTER"] # as the line in a Gemfile would

# Its routes and settings.
class TechEmpowerRails < Rails::Application
  config.root = __dir__
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = true
  config.enable_reloading = false
  config.consider_all_requests_local = false
  config.secret_key_base = "a bench has no secrets"
  config.logger = Logger.new($stderr)
  config.log_level = :error
  config.active_record.maintain_test_schema = false
  config.active_support.isolation_level = ENV.fetch("BENCH_ISOLATION", "thread").to_sym

  routes.append do
    get "hello", to: "pages#hello"
    get "json", to: "pages#json"
    get "fortunes", to: "pages#fortunes"
  end
end

# A row of the table.
class Fortune < ActiveRecord::Base
  self.table_name = "fortune"
end

# What TechEmpower asks of both: the headers, and one more fortune than the table has.
class PagesController < ActionController::Base
  before_action { response.headers.merge!("server" => "bench", "date" => Time.now.httpdate) }

  def hello = render(plain: "Hello, World!")
  def json = render(json: { message: "Hello, World!" })

  def fortunes
    added = Fortune.new(id: 0, message: "Additional fortune added at request time.")
    @fortunes = [*Fortune.all, added].sort_by(&:message)
    render layout: false
  end
end

TechEmpowerRails.initialize!

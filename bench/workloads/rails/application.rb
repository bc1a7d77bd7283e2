# frozen_string_literal: true

# The smallest Rails application that is still one: the whole middleware of a new application, in
# production mode, and actions that wait for PostgreSQL or for HTTP. Served by config.ru beside it;
# the environment says which adapter, how large a pool, and whether fibers are isolated.

require "logger"
require "rails"
require "action_controller/railtie"
require "active_record/railtie"
require "net/http"
require "neverblock" if ENV["BENCH_ADAPTER"] # as the line in a Gemfile would

# Its routes and settings.
class BenchApplication < Rails::Application
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
    get "one", to: "waits#one"
    get "sleep", to: "waits#sleeping"
    get "count", to: "waits#count"
    get "calls", to: "waits#calls"
  end
end

# What the articles' actions do.
class WaitsController < ActionController::Base
  SERVICE = URI(ENV.fetch("BENCH_SERVICE", "http://127.0.0.1/"))

  # The fast action of the article's mixes.
  def one = render(plain: select("select 1"))

  # The slow one.
  def sleeping = render(plain: select("select 1 from pg_sleep(1)"))

  # Something to do for the database.
  def count = render(plain: select("select count(*) from pg_class"))

  # Three calls of another service at once, by what the server brings for that.
  def calls = render(plain: together(3) { Net::HTTP.get(SERVICE) }.join(" "))

  private

  def select(sql) = ActiveRecord::Base.with_connection { |db| db.select_value(sql) }.to_s

  def together(count, &call)
    return NB.gather(*Array.new(count) { call }) if defined?(NB)
    return Array.new(count) { Async(&call) }.map(&:wait) if defined?(Async)

    Array.new(count) { Thread.new(&call) }.map(&:value)
  end
end

BenchApplication.initialize!

# frozen_string_literal: true

# The smallest Rails application that is still one, with actions that wait for PostgreSQL or for
# HTTP. Served by config.ru beside it.

require_relative "../../served/rails_settings"
require "net/http"

# Its routes and settings.
class BenchApplication < Rails::Application
  RailsSettings.apply(config, __dir__)

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

# frozen_string_literal: true

# What is served to be traced: the agent of one vendor, and the work of test/tracing/work.rb.
require "json"
require "net/http"
require "pg"
require "redis"
require_relative "vendors/#{ENV.fetch("TRACING_VENDOR")}"
require_relative "work"

vendor = Tracing::Vendors.start
work = Tracing::Work.new(vendor, backend: ENV.fetch("TRACING_BACKEND").to_i,
                                 postgresql: ENV.fetch("TRACING_POSTGRESQL"),
                                 redis: ENV.fetch("TRACING_REDIS"))

vendor.middleware { |*middleware, **options| use(*middleware, **options) }
run(lambda do |env|
  _, what, token = env["PATH_INFO"].split("/")
  case what
  when "work" then work.call(token, env["QUERY_STRING"].split(",").map(&:to_sym))
  when "fail" then work.part("here", token) && raise("boom #{token}")
  when "ready" then next [200, {}, [work.ask(token)]]
  when "idle" then sleep 0.01 until work.tasks_left.zero?
  end
  [200, { "content-type" => "text/plain" }, [token.to_s]]
end)

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"
ENV.update(RailsApp.environment("neverblock_postgresql"))
require_relative "app/config/application"
require "opentelemetry/sdk"
require "opentelemetry-instrumentation-rails"

# As an initializer of an application does it.
SPANS = OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new
OpenTelemetry::SDK.configure do |config|
  processor = OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(SPANS)
  config.add_span_processor(processor)
  config.use_all
end
RailsApp.load("neverblock_postgresql")

# OpenTelemetry's instrumentation of Rails: requests overlap on one thread, and what each starts
# by load_async and ActionController::Live belongs to its own trace.
class RailsTracingTest < Minitest::Test
  REQUESTS = 60

  # A span with the token of the request, wherever it is opened.
  module Marked
    def mark(name, token)
      OpenTelemetry.tracer_provider.tracer("test").in_span(name, attributes: {"token" => token}) { yield }
    end
  end

  class AsyncController < ApplicationController
    include Marked

    def show
      token = params[:token]
      later = Array.new(2) { |i| Account.where("pg_sleep(0.01) IS NOT NULL OR note = ?", "#{token} #{i}").load_async }
      mark("here", token) { sleep(rand * 0.01) }
      later.each(&:to_a)
      NB.gather(-> { mark("gather", token) { Account.where(note: token).load_async.to_a } })
      render(plain: token)
    end
  end

  class LiveController < ApplicationController
    include ActionController::Live
    include Marked

    def show
      3.times do |i|
        mark("live#{i}", params[:token]) { sleep(rand * 0.01) }
        response.stream.write("#{params[:token]}\n")
      end
    ensure
      response.stream.close
    end
  end

  Rails.application.routes.draw do
    get "/traced/async/:token", to: AsyncController.action(:show)
    get "/traced/live/:token", to: LiveController.action(:show)
  end

  def ids(number) = [format("%032x", number + 1), format("%016x", number + 1)]

  def get(port, number, kind)
    trace, parent = ids(number)
    Net::HTTP.start("127.0.0.1", port) do |http|
      http.get("/traced/#{kind}/t#{number}", "traceparent" => "00-#{trace}-#{parent}-01").body
    end
  end

  def traced(kind)
    SPANS.reset
    RailsApp.serve do |port|
      bodies = NB.run { NB.map(0...REQUESTS, concurrency: 20) { |number| get(port, number, kind) } }
      assert_equal (0...REQUESTS).map { |number| "t#{number}" }, bodies.map { |body| body.lines.first.chomp }
    end
    SPANS.finished_spans
  end

  def marked(spans) = spans.select { |span| span.attributes&.key?("token") }

  def check(spans)
    spans.each do |span|
      assert_equal ids(Integer(span.attributes["token"].delete("t"))).first, span.hex_trace_id, span.name
    end
  end

  def test_load_async_is_part_of_its_request
    spans = traced("async")
    assert_equal 2 * REQUESTS, marked(spans).size
    check(marked(spans))
    queries = spans.group_by(&:hex_trace_id).transform_values { |all| all.count { |span| span.name.match?(/query/i) } }
    assert_equal [3], queries.values.uniq, queries.inspect
    assert_equal REQUESTS, queries.size
  end

  def test_a_live_response_is_part_of_its_request
    spans = traced("live")
    assert_equal 3 * REQUESTS, marked(spans).size
    check(marked(spans))
    servers = spans.select { |span| span.kind == :server }
    assert_equal REQUESTS, servers.map(&:hex_trace_id).uniq.size
  end
end
# rubocop:enable Layout/LineLength

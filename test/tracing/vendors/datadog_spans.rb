# frozen_string_literal: true

require "msgpack"
require_relative "../check"
require_relative "../collector"

module Tracing
  # What comes to Datadog's agent.
  module DatadogSpans
    KINDS = { "rack.request" => :server, "http.request" => :client, "pg.exec" => :client,
              "redis.command" => :client }.freeze
    STATEMENT = /(t\d+)_(\w+)/.freeze
    # Agent versions that the tracer asks for before it sends.
    INFO = '{"endpoints":["/v0.4/traces"],"client_drop_p0s":false}'

    module_function

    def name = "datadog"
    def databases? = true
    def kinds = Work::KINDS

    def collector
      Collector.new { |request| [200, request.path == "/info" ? INFO : "{}"] }
    end

    def environment(port, _)
      { "DD_TRACE_AGENT_URL" => "http://127.0.0.1:#{port}", "DD_SERVICE" => "traced",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED" => "false",
        "DD_REMOTE_CONFIGURATION_ENABLED" => "false",
        "DD_TRACE_SAMPLE_RATE" => "1", "DD_TRACE_RATE_LIMIT" => "1000000",
        "DD_CRASHTRACKING_ENABLED" => "false", "DD_TRACE_STARTUP_LOGS" => "false" }
    end

    # @return [Array(String, String)] trace and parent of a client; the lower half of a trace
    def ids(index) = [(index + 1).to_s, (index + 1_000_000).to_s]

    def headers(trace, parent)
      { "x-datadog-trace-id" => trace, "x-datadog-parent-id" => parent,
        "x-datadog-sampling-priority" => "1" }
    end

    def spans(requests)
      requests.select { |request| request.path == "/v0.4/traces" }.flat_map do |request|
        MessagePack.unpack(request.body).flatten.map { |span| normal(span) }
      end
    end

    def normal(span)
      kind = KINDS.fetch(span["name"], :part)
      token, name = place(kind, span)
      Span.new(trace: span["trace_id"].to_s, id: span["span_id"].to_s, token: token, kind: kind,
               parent: (span["parent_id"].to_s unless span["parent_id"].zero?),
               name: name || span["name"], error: span.dig("meta", "error.message"),
               echo: echo(span.dig("meta", "echo")))
    end

    # @return [Array(String, String)] token and name
    def place(kind, span)
      meta = span["meta"]
      path = meta["http.url"].to_s[/[^?]*/]
      case kind
      when :server then [path.split("/").last]
      when :client
        path.empty? ? span["resource"].match(STATEMENT)&.captures : path.split("/").last(2)
      else [meta["token"]]
      end
    end

    def echo(text)
      text && JSON.parse(text).values_at("x_datadog_trace_id", "x_datadog_parent_id")
    end
  end
end

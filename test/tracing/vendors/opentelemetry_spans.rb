# frozen_string_literal: true

require "opentelemetry-exporter-otlp"
require_relative "../check"
require_relative "../collector"

module Tracing
  # What comes to an OTLP collector.
  module OpenTelemetrySpans
    KINDS = { SPAN_KIND_SERVER: :server, SPAN_KIND_CLIENT: :client }.freeze
    STATEMENT = /(t\d+)_(\w+)/.freeze
    REQUEST = Opentelemetry::Proto::Collector::Trace::V1::ExportTraceServiceRequest

    module_function

    def name = "opentelemetry"
    def databases? = true
    def kinds = Work::KINDS
    def collector = Collector.new

    def environment(port, _)
      { "OTEL_EXPORTER_OTLP_ENDPOINT" => "http://127.0.0.1:#{port}",
        "OTEL_BSP_MAX_QUEUE_SIZE" => "200000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" => "2000",
        "OTEL_BSP_SCHEDULE_DELAY" => "200", "OTEL_TRACES_SAMPLER" => "always_on" }
    end

    # @return [Array(String, String)] trace and parent of a client
    def ids(index) = %w[%032x %016x].map { |form| form % (index + 1) }
    def headers(trace, parent) = { "traceparent" => "00-#{trace}-#{parent}-01" }

    def spans(requests)
      requests.select { |request| request.path == "/v1/traces" }.flat_map do |request|
        REQUEST.decode(request.body).resource_spans.flat_map do |resource|
          resource.scope_spans.flat_map { |scope| scope.spans.map { |span| normal(span) } }
        end
      end
    end

    def normal(span)
      attributes = span.attributes.to_h { |pair| [pair.key, pair.value.string_value] }
      kind = KINDS.fetch(span.kind, :part)
      token, name = place(kind, attributes)
      Span.new(trace: hex(span.trace_id), id: hex(span.span_id), token: token, kind: kind,
               parent: (hex(span.parent_span_id) unless span.parent_span_id.empty?),
               name: name || span.name, echo: echo(attributes["echo"]), error: error(span))
    end

    # @return [Array(String, String)] token and name
    def place(kind, attributes)
      path = attributes.values_at("url.path", "http.target").compact.first.to_s[/[^?]*/]
      statement = attributes.values_at("db.query.text", "db.statement").compact.first
      case kind
      when :server then [path.split("/").last]
      when :client then statement ? statement.match(STATEMENT)&.captures : path.split("/").last(2)
      else [attributes["token"]]
      end
    end

    def hex(bytes) = bytes.unpack1("H*")

    def error(span)
      event = span.events.find { |one| one.name == "exception" }
      event&.attributes&.find { |pair| pair.key == "exception.message" }&.value&.string_value
    end

    def echo(text)
      text && JSON.parse(text)["traceparent"]&.split("-")&.values_at(1, 2)
    end
  end
end

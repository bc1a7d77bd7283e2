# frozen_string_literal: true

require "json"
require "uri"
require_relative "../check"
require_relative "../collector"

module Tracing
  # What comes to New Relic's collector, over TLS.
  module NewRelicSpans
    LIMITS = { analytic_event_data: 100_000, custom_event_data: 100_000, error_event_data: 100_000,
               log_event_data: 1000, span_event_data: 200_000 }.freeze
    HARVEST = { report_period_ms: 1000, harvest_limits: LIMITS }.freeze
    ANSWERS = {
      "preconnect" => { redirect_host: "127.0.0.1" },
      "connect" => { agent_run_id: "1", request_headers_map: {}, event_harvest_config: HARVEST,
                     span_event_harvest_config: { report_period_ms: 1000, harvest_limit: 200_000 },
                     max_payload_size_in_bytes: 100_000_000, # it drops larger reports
                     account_id: "1", trusted_account_key: "1", primary_application_id: "1" },
      "get_agent_commands" => []
    }.freeze
    STATEMENT = /(t\d+)_(\w+)/.freeze

    module_function

    def name = "newrelic"
    # Its agent knows not pg, and of Redis only the command.
    def databases? = false
    # What has not ended with the request is told twice, as with threads.
    def kinds = Work::KINDS - [:left]

    def collector
      Collector.new(tls: true) do |request|
        [200, JSON.generate(return_value: ANSWERS[method_of(request)])]
      end
    end

    def environment(port, folder)
      File.write("#{folder}/ca.pem", Certificates.certificate.to_pem)
      { "NEW_RELIC_LICENSE_KEY" => "a" * 40, "NEW_RELIC_APP_NAME" => "traced",
        "NEW_RELIC_HOST" => "127.0.0.1", "NEW_RELIC_PORT" => port.to_s,
        "NEW_RELIC_CA_BUNDLE_PATH" => "#{folder}/ca.pem", "NEW_RELIC_LOG" => "stdout",
        "NEW_RELIC_LOG_LEVEL" => "warn", "NEW_RELIC_UTILIZATION_DETECT_AWS" => "false",
        **always_on, **no_clouds }
    end

    def always_on
      %w[ROOT REMOTE_PARENT_SAMPLED REMOTE_PARENT_NOT_SAMPLED]
        .to_h { |name| ["NEW_RELIC_DISTRIBUTED_TRACING_SAMPLER_#{name}", "always_on"] }
    end

    def no_clouds
      %w[AWS AZURE GCP PCF DOCKER KUBERNETES]
        .to_h { |name| ["NEW_RELIC_UTILIZATION_DETECT_#{name}", "false"] }
    end

    # @return [Array(String, String)] trace and parent of a client
    def ids(index) = %w[%032x %016x].map { |form| form % (index + 1) }
    def headers(trace, parent) = { "traceparent" => "00-#{trace}-#{parent}-01" }

    def spans(requests)
      requests.select { |request| method_of(request) == "span_event_data" }.flat_map do |request|
        JSON.parse(request.body).last.map { |event| normal(*event) }
      end
    end

    def method_of(request) = URI.decode_www_form(URI(request.path).query).to_h["method"]

    def normal(span, custom, agent)
      kind = kind_of(span)
      token, name = place(kind, custom, agent)
      Span.new(trace: span["traceId"], id: span["guid"], parent: span["parentId"], kind: kind,
               name: name || span["name"], token: token, error: agent["error.message"],
               echo: echo(custom["echo"]))
    end

    def kind_of(span)
      return :server if span["nr.entryPoint"]

      span["category"] == "generic" ? :part : :client
    end

    # @return [Array(String, String)] token and name
    def place(kind, custom, agent)
      case kind
      when :server then [agent["request.uri"].to_s.split("/").last]
      when :client
        statement = agent["db.statement"]
        statement ? statement.match(STATEMENT)&.captures : agent["http.url"].to_s.split("/").last(2)
      else [custom["token"]]
      end
    end

    def echo(text) = text&.split("-")&.values_at(1, 2)
  end
end

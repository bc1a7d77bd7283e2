# frozen_string_literal: true

require "json"
require_relative "../check"
require_relative "../collector"

module Tracing
  # What comes to Sentry, in envelopes: a header, then each item's header and the item, by lines.
  module SentrySpans
    module_function

    def name = "sentry"
    # It knows not pg.
    def databases? = false
    # As with threads, what ends after the request is in no transaction that is sent, and the span
    # in which an Enumerator stands is that of its reader, too.
    def kinds = Work::KINDS - %i[left suspended]
    # It does not trace calls of its own host.
    def collector = Collector.new(host: "127.0.0.2")
    def environment(port, _) = { "TRACING_DSN" => "http://key@127.0.0.2:#{port}/1" }

    # @return [Array(String, String)] trace and parent of a client
    def ids(index) = %w[%032x %016x].map { |form| form % (index + 1) }
    def headers(trace, parent) = { "sentry-trace" => "#{trace}-#{parent}-1" }

    def spans(requests)
      items = requests.flat_map { |request| items(request.body) }
      errors = items.select { |item| item["exception"] }
        .to_h { |item| [trace_of(item), message(item)] }
      items.select { |item| item["type"] == "transaction" }.flat_map do |item|
        [server(item, errors), *item["spans"].map { |span| part(span) }]
      end
    end

    def items(envelope)
      envelope.lines.drop(1).each_slice(2).map { |_, item| JSON.parse(item) }
    end

    def trace_of(item) = item.dig("contexts", "trace", "trace_id")

    # With the user of another request it is not the right one.
    def message(item)
      text = item.dig("exception", "values", 0, "value")[/boom \w+/]
      own_user?(item) ? text : "#{text} of #{item["user"]}"
    end

    def own_user?(item) = item.dig("user", "id") == token_of(item)
    def token_of(item) = item.dig("request", "url").split("/").last

    def server(item, errors)
      trace = item["contexts"]["trace"]
      Span.new(trace: trace["trace_id"], id: trace["span_id"], parent: trace["parent_span_id"],
               kind: :server, token: token_of(item), name: item["transaction"],
               error: errors[trace["trace_id"]])
    end

    def part(span)
      kind = span["op"] == "part" ? :part : :client
      url = span["data"]["url"] || span["description"]
      token, name = span["data"]["token"] if kind == :part
      token, name = url.to_s.scan(/(t\d+|idle)[_\/](\w+)/).last if kind == :client
      Span.new(trace: span["trace_id"], id: span["span_id"], parent: span["parent_span_id"],
               kind: kind, token: token, name: name || span["description"],
               echo: echo(span["data"]["echo"]))
    end

    def echo(text)
      text && JSON.parse(text)["sentry_trace"]&.split("-")&.first(2)
    end
  end
end

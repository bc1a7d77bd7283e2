# frozen_string_literal: true

# One answer from three services, all asked at once: it has what came in time, null for the rest,
# and the errors.
#
# Run: UPSTREAM=http://127.0.0.1:8080 nb serve examples/cookbook/gateway.ru
# TERM or Ctrl-C: answers the requests that have arrived, then ends.

require "json"
require "net/http"
require "neverblock"

PARTS = %w[user orders news].freeze
UPSTREAM = ENV.fetch("UPSTREAM")

ask = lambda do |part|
  response = Net::HTTP.get_response(URI("#{UPSTREAM}/#{part}"))
  response.is_a?(Net::HTTPSuccess) ? JSON.parse(response.body) : raise(response.message)
end

run(lambda do |_env|
  outcomes = NB.settle(*PARTS.map { |part| -> { ask.call(part) } }, timeout: 0.5)
  values = PARTS.zip(outcomes.map(&:value)).to_h
  errors = PARTS.zip(outcomes).reject { |_, outcome| outcome.ok? }
  body = values.merge("errors" => errors.to_h { |part, outcome| [part, outcome.error.message] })
  [200, { "content-type" => "application/json" }, [JSON.generate(body)]]
end)

# frozen_string_literal: true

# The service that the traced application calls: answers with the ids that came with the request.
require "json"
NAMES = %w[TRACEPARENT X_DATADOG_TRACE_ID X_DATADOG_PARENT_ID SENTRY_TRACE].freeze

run(lambda do |env|
  sleep(rand * 0.005)
  ids = NAMES.to_h { |name| [name.downcase, env["HTTP_#{name}"]] }.compact
  [200, { "content-type" => "application/json" }, [JSON.generate(ids)]]
end)

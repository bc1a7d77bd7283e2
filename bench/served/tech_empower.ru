# frozen_string_literal: true

require_relative "tech_empower"

# TechEmpower's pages on bare Rack.

# TechEmpower wants both headers of every answer, and not every server sends them.
def answer(type, body)
  [200, { "content-type" => type, "content-length" => body.bytesize.to_s, "server" => "bench",
          "date" => Time.now.httpdate }, [body]]
end

def json(object) = answer("application/json", JSON.generate(object))

def count(env) = env["QUERY_STRING"][/queries=(\d+)/, 1]

PAGES = {
  "/hello" => ->(_env) { answer("text/plain", TechEmpower::HELLO) },
  "/plaintext" => ->(_env) { answer("text/plain", TechEmpower::HELLO) },
  "/json" => ->(_env) { json(TechEmpower.message) },
  "/db" => ->(_env) { json(TechEmpower.world) },
  "/queries" => ->(env) { json(TechEmpower.worlds(count(env))) },
  "/fortunes" => ->(_env) { answer("text/html; charset=utf-8", TechEmpower.fortunes) },
  "/updates" => ->(env) { json(TechEmpower.updated(count(env))) }
}.freeze

run ->(env) { PAGES.fetch(env["PATH_INFO"]).call(env) }

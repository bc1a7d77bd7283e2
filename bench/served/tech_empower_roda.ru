# frozen_string_literal: true

require "roda"
require_relative "tech_empower"

# TechEmpower's pages in Roda.
class Pages < Roda
  # TechEmpower wants both headers of every answer, and not every server sends them.
  def answer(type, body)
    response.headers.update("content-type" => type, "server" => "bench",
                            "date" => Time.now.httpdate)
    body
  end

  def json(object) = answer("application/json", JSON.generate(object))

  route do |r|
    r.get("hello") { answer("text/plain", TechEmpower::HELLO) }
    r.get("plaintext") { answer("text/plain", TechEmpower::HELLO) }
    r.get("json") { json(TechEmpower.message) }
    r.get("db") { json(TechEmpower.world) }
    r.get("queries") { json(TechEmpower.worlds(r.params["queries"])) }
    r.get("fortunes") { answer("text/html; charset=utf-8", TechEmpower.fortunes) }
    r.get("updates") { json(TechEmpower.updated(r.params["queries"])) }
  end
end

run Pages.freeze.app

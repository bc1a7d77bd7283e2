# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "excon"

# Excon. In shared_client_test.rb, fibers share a connection.
class ExconTest < Transparency
  extend HTTPRows

  library "excon", group: "HTTP", gems: %w[excon],
          cure: "in a loop, each call has a socket to itself"
  http_rows

  private

  def get(url, timeout: 5) = Excon.get(url, **options(timeout)).body

  def session(url, timeout: 5)
    http = Excon.new(URI(url).origin, persistent: true, **options(timeout))
    HTTPRows::Session.new(->(wanted) { request(http, URI(wanted)) }, -> { http.reset })
  end

  def request(http, uri) = http.get(path: uri.path, query: uri.query).body
  def options(timeout) = { read_timeout: timeout }
end

# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "set" # httpx 1.9 forgets it on Ruby 3.1
require "httpx"

# httpx, all in Ruby, with a resolver of its own.
class HTTPXTest < Transparency
  extend HTTPRows

  library "httpx", group: "HTTP", gems: %w[httpx http-2]
  http_rows

  waits "requests to two hosts in one call" do
    urls = %w[127.0.0.1 localhost].map { |host| HTTPServers.url(100, host: host) }
    bodies = measure(count: 20) { client(5).get(*urls).map { |one| text(one) } }
    assert_equal [%w[done done]], bodies.uniq
  end

  private

  def get(url, timeout: 5) = text(client(timeout).get(url))

  def session(url, timeout: 5)
    http = client(timeout).plugin(:persistent).with(origin: URI(url).origin)
    HTTPRows::Session.new(->(wanted) { text(http.get(wanted)) }, -> { http.close })
  end

  def client(timeout)
    HTTPX.with(timeout: { read_timeout: timeout, request_timeout: timeout })
  end

  def text(response) = response.raise_for_status.body.to_s
end

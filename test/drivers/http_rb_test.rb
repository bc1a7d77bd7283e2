# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "http"

# http.rb.
class HTTPRbTest < Transparency
  extend HTTPRows

  library "http", group: "HTTP", gems: %w[http]
  http_rows

  private

  def get(url, timeout: 5) = client(timeout).get(url).to_s

  def session(url, timeout: 5)
    http = client(timeout).persistent(URI(url).origin)
    HTTPRows::Session.new(->(wanted) { http.get(URI(wanted).request_uri).to_s }, -> { http.close })
  end

  def client(timeout) = HTTP.timeout(connect: 5, read: timeout, write: 5)
end

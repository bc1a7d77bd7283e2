# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "net/http"
require "open-uri"

# Net::HTTP, which most other clients are made of: it waits by itself.
class NetHTTPTest < Transparency
  extend HTTPRows

  library "net-http", group: "HTTP", gems: %w[net-http]
  http_rows

  waits "a body in pieces, passed to a block" do
    assert_equal [100_000], measure { pieces("#{HTTPServers.url(100)}&bytes=100000").sum }.uniq
  end

  private

  def get(url, timeout: 5)
    uri = URI(url)
    started(uri, timeout) { |http| http.get(uri.request_uri).body }
  end

  def session(url, timeout: 5)
    http = started(URI(url), timeout)
    HTTPRows::Session.new(->(wanted) { http.get(URI(wanted).request_uri).body }, -> { http.finish })
  end

  def started(uri, timeout, &block)
    Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https", read_timeout: timeout,
                                        max_retries: 0, &block)
  end

  def pieces(url)
    uri = URI(url)
    Net::HTTP.start(uri.host, uri.port) do |http|
      http.request_get(uri.request_uri) do |response|
        return response.enum_for(:read_body).map(&:size)
      end
    end
  end
end

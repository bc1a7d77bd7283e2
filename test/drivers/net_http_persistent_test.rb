# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "net/http/persistent"

# net-http-persistent: connections that are kept, from a pool.
class NetHTTPPersistentTest < Transparency
  extend HTTPRows

  library "net-http-persistent", group: "HTTP", gems: %w[net-http-persistent net-http]
  http_rows

  waits "one object and its pool shared by all" do
    http = persistent(5)
    together { http.request(URI(HTTPServers.url)) }
    late = URI(HTTPServers.url(100))
    assert_equal ["done"], measure { http.request(late).body }.uniq
  ensure
    http&.shutdown
  end

  private

  def get(url, timeout: 5)
    one = session(url, timeout: timeout)
    one.get.call(url)
  ensure
    one&.close&.call
  end

  def session(_, timeout: 5)
    http = persistent(timeout)
    HTTPRows::Session.new(->(url) { http.request(URI(url)).body }, -> { http.shutdown })
  end

  def persistent(timeout)
    Net::HTTP::Persistent.new.tap do |http|
      http.read_timeout = timeout
      http.max_retries = 0
    end
  end
end

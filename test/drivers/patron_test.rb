# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "patron"
require_relative "../support/clock"
require_relative "../support/timing"

# patron: libcurl. Version 1.0 waits by Ruby's scheduler; before, a request is offloaded.
class PatronTest < Transparency
  include Clock
  extend HTTPRows

  library "patron", group: "HTTP", gems: %w[patron],
          cure: (if Patron::VERSION < "1"
                   "runs on a native thread automatically; patron 1.0 waits as it is"
                 end)
  http_rows

  # The server would answer after 5 s.
  def test_a_timeout_ends_a_request_as_in_a_thread
    http = session(HTTPServers.url, timeout: 30)
    NB.run do
      took = seconds do
        assert_raises(Timeout::Error) { NB.timeout(0.1) { http.get.call(HTTPServers.url(5000)) } }
      end
      assert_in_time took, 2
      assert_equal "done", http.get.call(HTTPServers.url)
    end
  end

  def closes? = false

  # Before 1.0, threads hand Ruby's lock on: one that waits for a CPU keeps the loop waiting. (Not
  # offloaded, 50 requests of 100 ms take 5 s.)
  def standstill = Patron::VERSION < "1" ? 0.1 : super

  private

  def get(url, timeout: 5)
    session(url, timeout: timeout).get.call(url)
  end

  def session(url, timeout: 5)
    http = Patron::Session.new(timeout: timeout)
    http.cacert = HTTPServers.authority if url.start_with?("https")
    HTTPRows::Session.new(->(wanted) { http.get(wanted).body }, -> {})
  end
end

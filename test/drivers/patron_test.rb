# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "patron"

# patron: libcurl. Version 1.0 waits by Ruby's scheduler; before, a request is offloaded.
class PatronTest < Transparency
  extend HTTPRows

  library "patron", group: "HTTP", gems: %w[patron],
          cure: (if Patron::VERSION < "1"
                   "runs on a native thread automatically; patron 1.0 waits as it is"
                 end)
  http_rows

  def closes? = false

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

# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "curb"

# curb: libcurl, which waits by Ruby's scheduler since curb 1.3. It keeps connections for all fibers
# of a thread together.
class CurbTest < Transparency
  extend HTTPRows

  library "curb", group: "HTTP", gems: %w[curb]
  http_rows except: [:names]

  # Each by a name of its own. libcurl (7.88) makes a native thread for every lookup; when another
  # transfer has found the same name meanwhile, it takes that and joins its own thread, which still
  # looks it up: the loop stands until then. (Fewer than elsewhere: all threads are joined.)
  waits "a request to a host name that resolves late" do
    urls = Array.new(10) { HTTPServers.url(host: name_late) }
    assert_equal ["done"], measure(count: 10, delay: 0.3) { |i| get(urls[i]) }.uniq
  end

  def closes? = false

  private

  def get(url, timeout: 5)
    easy = easy(url, timeout)
    easy.setopt(Curl::CURLOPT_FORBID_REUSE, 1)
    easy.perform
    easy.body_str
  ensure
    easy&.close
  end

  def session(url, timeout: 5)
    easy = easy(url, timeout)
    HTTPRows::Session.new(->(wanted) { perform(easy, wanted) }, -> { easy.close })
  end

  def perform(easy, url)
    easy.url = url
    easy.perform
    easy.body_str
  end

  def easy(url, timeout)
    Curl::Easy.new(url) do |easy|
      easy.timeout_ms = (timeout * 1000).round
      easy.cacert = HTTPServers.authority if url.start_with?("https")
    end
  end
end

# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "typhoeus"

# typhoeus and ethon: libcurl by FFI, which knows no scheduler. What waits in it is offloaded.
class TyphoeusTest < Transparency
  extend HTTPRows

  library "typhoeus", group: "HTTP", gems: %w[typhoeus ethon],
          cure: "runs on native threads automatically, at most 256 at a time"
  http_rows except: [:sessions]

  waits "a hydra of three requests" do
    bodies = measure(count: 10) { hydra(Array.new(3) { HTTPServers.url(100) }) }
    assert_equal [%w[done done done]], bodies.uniq
  end

  def closes? = false

  # Its calls run on Ruby's threads: one that has Ruby's lock keeps it for up to 100 ms, and longer
  # while it waits for a CPU. (Not offloaded, 50 requests of 100 ms take 5 s.)
  def standstill = 0.1

  private

  def hydra(urls)
    hydra = Typhoeus::Hydra.new
    requests = urls.map { |url| Typhoeus::Request.new(url, forbid_reuse: true) }
    requests.each { |request| hydra.queue(request) }
    hydra.run
    requests.map { |request| request.response.body }
  end

  def get(url, timeout: 5)
    options = { timeout_ms: (timeout * 1000).round, forbid_reuse: true }
    options[:cainfo] = HTTPServers.authority if url.start_with?("https")
    response = Typhoeus.get(url, **options)
    raise IOError, response.return_code.to_s unless response.return_code == :ok

    response.body
  end
end

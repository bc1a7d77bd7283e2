# frozen_string_literal: true

# The client of "Ruby Networking on Steroids" (2008): 20 requests of a second each, in one.
#
# Run: ruby examples/legacy/server.rb & ruby -Ilib examples/legacy/client.rb
# Changed since, and why:
# - `require "never_block"`, the door that loads EventMachine too, for `require 'neverblock'`: the
#   gem does not depend on EventMachine any more
# - `URI(…)` around the address, which the article forgot, and its 8080 from the environment
# - the block says how long it took and stops the reactor when all have come; the article's never
#   ended

require "never_block"
require "net/http"

port = ENV.fetch("PORT", "8080")
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
bodies = []
EM.run do
  @pool = NB::FiberPool.new(20)
  20.times do
    @pool.spawn do
      url = URI("http://localhost:#{port}")
      res = Net::HTTP.start(url.host, url.port) { |http| http.get("/") }
      bodies << res.body
      EM.stop if bodies.size == 20
    end
  end
end
took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "#{bodies.size} answers (#{bodies.uniq.join}), took #{took.round(2)} s"

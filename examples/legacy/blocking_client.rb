# frozen_string_literal: true

# The blocking client of "Ruby Networking on Steroids" (2008): 20 requests of a second each, one
# after the other.
#
# Run: ruby examples/legacy/server.rb & ruby examples/legacy/blocking_client.rb
# Changed since, and why:
# - `URI(…)` around the address, which the article forgot, and its 8080 from the environment
# - how many requests, from the command line: 20 if you do not say; and how long they took
# The table: nb bench a3

require "net/http"

port = ENV.fetch("PORT", "8080")
count = Integer(ARGV.fetch(0, "20"), exception: false)
abort "usage: blocking_client.rb [REQUESTS]" unless count&.positive?

start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
bodies = Array.new(count) do
  url = URI("http://localhost:#{port}")
  res = Net::HTTP.start(url.host, url.port) { |http| http.get("/") }
  res.body
end
took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "#{bodies.size} answers (#{bodies.uniq.join}), took #{took.round(2)} s"

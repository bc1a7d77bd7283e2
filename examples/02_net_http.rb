# frozen_string_literal: true

# Ordinary Net::HTTP, twenty requests at a time on one thread. The code knows nothing of NeverBlock.
#
# Run: ruby -Ilib examples/02_net_http.rb
# Prints:
#   one after another, 4 requests took 0.8 s
#   inside NB.run, 20 requests took 0.2 s, and all of them said: done

require "net/http"
require "neverblock"
require "neverblock/cli/delay_server"

server = NB::DelayServer.new(delay: 0.2)
serving = Thread.new { server.run }
uri = URI("http://127.0.0.1:#{server.port}/")

def time
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield
  (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(1)
end

alone = time { 4.times { Net::HTTP.get(uri) } }
puts "one after another, 4 requests took #{alone} s"

bodies = []
together = time do
  NB.run { bodies = 20.times.map { NB.async { Net::HTTP.get(uri) } }.map(&:value) }
end
puts "inside NB.run, 20 requests took #{together} s, and all of them said: #{bodies.uniq.join}"

server.stop
serving.join

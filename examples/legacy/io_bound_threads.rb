# frozen_string_literal: true

# The third program of "Concurrency, Real and Imagined, in MRI: Threads" (2009): threads that wait
# for a server do so side by side. Each fetches the page until all fetches are done; one that fails
# is tried up to five times.
#
# Run: nb delayd --delay 28.6 & ruby -Ilib examples/legacy/io_bound_threads.rb THREADS FETCHES URL
# With "fibers" behind the URL, fibers of a loop do the same work.
# Changed since, and why:
# - a queue of tickets and as many threads as asked for; the article made a thread for each fetch
#   and counted them with a Mutex and a ConditionVariable, as the table still does
# - what is tried again is an error of the network or the server; the article tried after any, and
#   took the fifth for an empty page. Here the fifth ends the program
# - the address is parsed by URI, not by an expression
# The table: nb bench f3

require "neverblock"
require "net/http"

workers, fetches = ARGV.first(2).map { |word| Integer(word, exception: false) }
address = URI(ARGV[2].to_s)
abort "usage: io_bound_threads.rb THREADS FETCHES URL [fibers]" unless
  workers&.positive? && fetches&.positive? && address.is_a?(URI::HTTP)

tickets = Thread::Queue.new([true] * fetches).close
fetch = lambda do
  tries = 0
  begin
    http = Net::HTTP.new(address.host, address.port)
    http.open_timeout = 30
    http.get(address.request_uri).value # raises unless it is a success
    true
  rescue SystemCallError, Timeout::Error, Net::HTTPFatalError
    (tries += 1) < 5 ? retry : raise
  end
end
work = lambda do |_|
  done = 0
  done += 1 while tickets.pop && fetch.call
  done
end

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
counts = if ARGV[3] == "fibers"
  NB.run { NB.map(Array.new(workers), concurrency: workers, &work) }
else
  Array.new(workers) { Thread.new { work.call(nil) } }.map(&:value)
end
took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
puts format("%<fetches>d fetches by %<workers>d, took %<took>.6f s",
            fetches: counts.sum, workers:, took:)

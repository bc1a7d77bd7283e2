# frozen_string_literal: true

# What it costs to look at a server with many fibers: CPU time of one snapshot and of one count of
# the waits, medians of 20. docs/OBSERVE.md has the figures.
#
#   ruby -Ilib test/server/observe_cost.rb [fibers] [calls deep]

require "json"
require "neverblock"
require "neverblock/server"

count = Integer(ARGV.fetch(0, 10_000))
depth = Integer(ARGV.fetch(1, 30))

def deep(calls) = calls.zero? ? sleep : deep(calls - 1)

def milliseconds
  times = Array.new(20) do
    GC.start
    began = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    yield
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - began
  end
  format("%.1f ms", times.sort[10] * 1000)
end

server = NB::Server.new(->(_env) { [200, {}, []] }, bind: "tcp://127.0.0.1:0")
pool = NB::ConnectionPool.new(size: 1, timeout: nil) { Object.new }
started = Thread::Queue.new
tasks = Thread::Queue.new
Thread.new do
  server.run do
    scheduler = Fiber.scheduler
    NB.async { tasks.pop.call while true }
    count.times { NB.async { deep(depth) } }
    started << scheduler
  end
end
scheduler = started.pop
sleep 0.01 until scheduler.parked[:sleep] >= count

page = {fibers: 100, requests: 100, frames: 0}
waits = -> { NB::Server::Metrics.waiting(scheduler.parked) }
puts "Ruby #{RUBY_VERSION}, #{count} fibers, #{depth} calls deep, CPU time",
  "the page's snapshot: #{milliseconds { JSON.generate(server.snapshot(**page)) }}",
  "/snapshot: #{milliseconds { JSON.generate(server.snapshot) }}",
  "the waits by kind for /metrics: #{milliseconds(&waits)}"
tasks << -> { 2.times { NB.async { pool.with { sleep } } } }
sleep 0.01 until NB.pools(scheduler).any? { |one| one[:waiting] == 1 }
puts "the page's snapshot while a fiber waits for a pool: " \
     "#{milliseconds { JSON.generate(server.snapshot(**page)) }}"
$stdout.flush
exit!

# frozen_string_literal: true

# The four forms of "Ruby Fiber and EventMachine" (2014): one HTTP call that blocks; with callbacks;
# with a fiber that a callback resumes; with a thread pool. In our loop, the first form does what
# the other three are for.
#
# Run: ruby -Ilib examples/legacy/four_forms.rb
# Prints:
#   1 blocking           20 answers, took 2.0 s
#   2 callbacks          20 answers, took 0.1 s
#   3 fiber              20 answers, took 0.1 s
#   4 fiber and threads  20 answers, took 0.1 s
#   1 in NB.run          20 answers, took 0.1 s
#   1 in EM.run          20 answers, took 0.1 s
# Changed since: `current_fiber.yield` is Fiber.yield, `http.start` is `get`; the address.

require "em-http-request"
require "rest-client"
require "neverblock/eventmachine"
require "neverblock/cli/delay_server"

SERVER = NB::DelayServer.new(delay: 0.1)
URL = "http://127.0.0.1:#{SERVER.port}/".freeze

def call_blocking(url) = RestClient.get(url).body

def call_callback(url, &done)
  http = EventMachine::HttpRequest.new(url).get
  http.callback { done.call(http.response) }
  http.errback { done.call(nil) }
end

def call_fiber(url)
  current_fiber = Fiber.current
  http = EventMachine::HttpRequest.new(url).get
  http.callback { current_fiber.resume(0, http.response) }
  http.errback { current_fiber.resume(1, nil) }
  status, response = Fiber.yield
  response if status == 0
end

def call_thread(url)
  current_fiber = Fiber.current
  EventMachine.defer do # its thread pool; the fiber can only be resumed in its own thread
    response = RestClient.get(url).body
    EventMachine.next_tick { current_fiber.resume(0, response) }
  end
  _status, response = Fiber.yield
  response
end

def report(name)
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield answers = []
  took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  puts "#{name.ljust(20)} #{answers.grep("done").size} answers, took #{took.round(1)} s"
end

def in_reactor(answers)
  EventMachine.run do
    20.times { yield(->(body) { (answers << body).size == 20 && EventMachine.stop }) }
  end
end

def in_fiber(answers) = in_reactor(answers) { |done| Fiber.new { done.call(yield) }.resume }

Thread.new { SERVER.run }
report("1 blocking") { |answers| 20.times { answers << call_blocking(URL) } }
report("2 callbacks") { |answers| in_reactor(answers) { |done| call_callback(URL, &done) } }
report("3 fiber") { |answers| in_fiber(answers) { call_fiber(URL) } }
report("4 fiber and threads") { |answers| in_fiber(answers) { call_thread(URL) } }
report("1 in NB.run") do |answers|
  NB.run { 20.times { NB.async { answers << call_blocking(URL) } } }
end
report("1 in EM.run") do |answers|
  in_reactor(answers) { |done| NB.async { done.call(call_blocking(URL)) } }
end
SERVER.stop

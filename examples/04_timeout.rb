# frozen_string_literal: true

# A time limit for any wait in a block. It raises Timeout::Error in the block and runs its `ensure`;
# a `rescue => error` in the block does not swallow it. Timeout.timeout does the same.
#
# Run: ruby -Ilib examples/04_timeout.rb
# Prints:
#   in time: 42
#   inner limit: Timeout::Error: execution expired, took 0.1 s
#   outer limit: Timeout::Error: execution expired, took 0.1 s
#   cleaned up 2 times

require "neverblock"

def report(name)
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  puts "#{name}: #{yield}"
rescue Timeout::Error => error
  took = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(1)
  puts "#{name}: #{error.class}: #{error.message}, took #{took} s"
end

cleaned = 0
careless = proc do
  sleep 5
rescue StandardError
  "swallowed"
ensure
  cleaned += 1
end

NB.run do
  report("in time") { NB.timeout(5) { sleep(0.01) && 42 } }
  report("inner limit") { NB.timeout(5) { NB.timeout(0.1, &careless) } }
  report("outer limit") { NB.timeout(0.1) { NB.timeout(5, &careless) } }
end
puts "cleaned up #{cleaned} times"

# frozen_string_literal: true

# Twenty naps in the time of one: while a fiber sleeps inside NB.run, the others run.
#
# Run: ruby -Ilib examples/01_sleep.rb
# Prints:
#   one after another, 5 naps took 0.5 s
#   inside NB.run, 20 naps took 0.1 s

require "neverblock"

def time
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield
  (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(1)
end

alone = time { 5.times { sleep 0.1 } }
puts "one after another, 5 naps took #{alone} s"

together = time do
  NB.run do
    20.times { NB.async { sleep 0.1 } }
  end # ends when every fiber has
end
puts "inside NB.run, 20 naps took #{together} s"

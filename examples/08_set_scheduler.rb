# frozen_string_literal: true

# Ruby's own interface instead of NB.run. Each thread may have a loop, which runs when the thread
# ends.
#
# Run: ruby -Ilib examples/08_set_scheduler.rb
# Prints:
#   thread 1 done: 10 fibers, took 0.1 s
#   thread 2 done: 10 fibers, took 0.2 s

require "neverblock"

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

threads = [1, 2].map do |number|
  Thread.new do
    start = now
    ended = 0
    Fiber.set_scheduler(NB::Scheduler.new)
    10.times do
      Fiber.schedule do
        sleep 0.1 * number
        ended += 1
      end
    end
    Fiber.scheduler.close # runs the loop to its end
    "thread #{number} done: #{ended} fibers, took #{(now - start).round(1)} s"
  end
end
puts threads.map(&:value)

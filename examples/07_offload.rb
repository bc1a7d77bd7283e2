# frozen_string_literal: true

# Work that cannot wait in the loop goes elsewhere: a blocking C call to a native thread, computing
# in Ruby to another process. Meanwhile the other fibers run: the ticker ticks every 5 ms.
#
# Run: ruby -Ilib examples/07_offload.rb
# Prints:
#   the pipe said hello, took 0.2 s
#   the sum was 500000500000, from another process: true
#   the ticker ticked on meanwhile: true, true

require "neverblock"
require "tmpdir"

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

NB.run do
  ticks = 0
  ticker = NB.async { loop { sleep(0.005) && ticks += 1 } }

  Dir.mktmpdir do |folder|
    File.mkfifo(pipe = File.join(folder, "pipe"))
    writer = spawn("sleep 0.2; echo hello > #{pipe}")
    start = now
    text = NB.offload { File.read(pipe) } # open(2) of such a pipe blocks until someone writes
    puts "the pipe said #{text.chomp}, took #{(now - start).round(1)} s"
    Process.wait(writer)
  end
  before = ticks

  sum, pid = NB.in_process { [(1..1_000_000).reduce(:+), Process.pid] }
  puts "the sum was #{sum}, from another process: #{pid != Process.pid}"
  ticker.cancel
  puts "the ticker ticked on meanwhile: #{before > 5}, #{ticks - before > 5}"
end

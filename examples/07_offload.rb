# frozen_string_literal: true

# Work that cannot wait in the loop goes elsewhere: a blocking C call to a native thread, computing
# in Ruby to another process. Meanwhile the other fibers run: the ticker is never late.
#
# Run: ruby -Ilib examples/07_offload.rb
# Prints:
#   the pipe said hello, took 0.2 s
#   the sum was 500000500000, from another process: true
#   the longest the ticker had to wait was under 0.1 s: true

require "neverblock"
require "tmpdir"

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

NB.run do
  gaps = []
  ticker = NB.async { loop { now.tap { |before| sleep(0.005) && gaps << (now - before) } } }

  Dir.mktmpdir do |folder|
    File.mkfifo(pipe = File.join(folder, "pipe"))
    writer = spawn("sleep 0.2; echo hello > #{pipe}")
    start = now
    text = NB.offload { File.read(pipe) } # open(2) of such a pipe blocks until someone writes
    puts "the pipe said #{text.chomp}, took #{(now - start).round(1)} s"
    Process.wait(writer)
  end

  sum, pid = NB.in_process { [(1..1_000_000).reduce(:+), Process.pid] }
  puts "the sum was #{sum}, from another process: #{pid != Process.pid}"
  ticker.cancel
  puts "the longest the ticker had to wait was under 0.1 s: #{gaps.max < 0.1}"
end

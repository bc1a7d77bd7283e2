# frozen_string_literal: true

# `rake fuzz:blocking[1000,1]`: random programs, each run by threads and by fibers. Prints each
# difference with the seed that repeats it: `rake fuzz:blocking[1,SEED]`. Beside threads, fibers may
# have to wait for the GVL, so the watchdog is off.

require_relative "pair"

count = Integer(ARGV[0] || 1000)
first = Integer(ARGV[1] || 1)
options = ARGV[2] ? { backend: ARGV[2].to_sym } : {}
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
$stdout.sync = true
different = (first...first + count).select do |seed|
  lines = RandomPrograms::Pair.new(seed, **options).differences
  lines.first(3).each { |line| puts "seed #{seed}: #{line}" }
  lines.any?
end
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "#{count} programs from seed #{first} in #{seconds.round} s: #{different.size} differ " \
     "between threads and fibers #{different.first(20).inspect unless different.empty?}".rstrip
exit different.empty?

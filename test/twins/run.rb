# frozen_string_literal: true

# `rake fuzz:blocking[1000,1]`: programs by chance, each run by threads and by fibers. Prints each
# difference with the seed that repeats it: `rake fuzz:blocking[1,SEED]`.

require_relative "pair"

count = Integer(ARGV[0] || 1000)
first = Integer(ARGV[1] || 1)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
different = (first...first + count).select do |seed|
  Twins::Pair.new(seed).differences.first(3).each { |line| puts "seed #{seed}: #{line}" }.any?
end
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "#{count} programs from seed #{first} in #{seconds.round} s: #{different.size} differ " \
     "between threads and fibers #{different.first(20).inspect unless different.empty?}".rstrip
exit different.empty?

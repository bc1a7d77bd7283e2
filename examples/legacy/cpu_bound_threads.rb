# frozen_string_literal: true

# The first program of "Concurrency, Real and Imagined, in MRI: Threads" (2009): threads that only
# compute share one core. It takes as long with eight as with one.
#
# Run: ruby examples/legacy/cpu_bound_threads.rb THREADS ITERATIONS
# Changed since, and why:
# - each thread returns its sum, as Thread#value gives it; the article's left it in a local of the
#   thread
# - `inject` for a loop, and one line with the time for the report of the benchmark library
# - a wrong argument ends it with its usage; the article's program took it for 0
# The table: nb bench f1

threads, iterations = ARGV.map { |word| Integer(word, exception: false) }
abort "usage: cpu_bound_threads.rb THREADS ITERATIONS" unless
  threads&.positive? && iterations&.positive?

# The first numbers of each part, and the number after the last.
firsts = Array.new(threads + 1) { |index| 1 + (iterations * index / threads) }
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
sums = firsts.each_cons(2).map do |from, to|
  Thread.new { (from...to).inject(0) { |sum, one| sum + one } }
end
sum = sums.sum(&:value)
took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
puts format("%<threads>d threads added up to %<sum>d, took %<took>.6f s", threads:, sum:, took:)

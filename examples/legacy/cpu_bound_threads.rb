# frozen_string_literal: true

# The first program of "Concurrency, Real and Imagined, in MRI: Threads" (2009): threads that only
# compute share one core. It takes as long with eight as with one.
#
# Run: ruby examples/legacy/cpu_bound_threads.rb THREADS ITERATIONS
# The table: nb bench f1

threads, iterations = ARGV.map { |word| Integer(word) }
abort "usage: cpu_bound_threads.rb THREADS ITERATIONS" unless threads&.positive? && iterations

share = iterations / threads
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
sums = Array.new(threads) do |number|
  Thread.new { ((number * share)...((number + 1) * share)).inject(0) { |sum, one| sum + one } }
end
sum = sums.sum(&:value)
took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
puts format("%<threads>d threads added up to %<sum>d, took %<took>.6f s", threads:, sum:, took:)

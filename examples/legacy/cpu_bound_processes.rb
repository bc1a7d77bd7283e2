# frozen_string_literal: true

# The second program of "Concurrency, Real and Imagined, in MRI: Threads" (2009): processes use all
# cores. Each sends its result through a pipe, in one line of Base64.
#
# Run: ruby examples/legacy/cpu_bound_processes.rb PROCESSES ITERATIONS
# Changed since, and why:
# - "m0" for "m": Base64 in one line, so that a `gets` reads all of it
# - `inject` for a loop, and one line with the time for the report of the benchmark library
# - a wrong argument ends it with its usage; the article's program took it for 0
# The table: nb bench f2. In a loop, NB.in_process { } does the same.

processes, iterations = ARGV.map { |word| Integer(word, exception: false) }
abort "usage: cpu_bound_processes.rb PROCESSES ITERATIONS" unless
  processes&.positive? && iterations&.positive?

# The first numbers of each part, and the number after the last.
firsts = Array.new(processes + 1) { |index| 1 + (iterations * index / processes) }
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
pipes = firsts.each_cons(2).map do |from, to|
  reader, writer = IO.pipe
  fork do
    reader.close
    sum = (from...to).inject(0) { |all, one| all + one }
    writer.puts [Marshal.dump(sum)].pack("m0")
    exit!(0)
  end
  writer.close
  reader
end
sum = pipes.sum { |reader| Marshal.load(reader.gets.unpack1("m")) } # of our own children
Process.waitall
took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
puts format("%<processes>d processes added up to %<sum>d, took %<took>.6f s",
            processes:, sum:, took:)

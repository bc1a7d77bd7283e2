# frozen_string_literal: true

# The second program of "Concurrency, Real and Imagined, in MRI: Threads" (2009): processes use all
# cores. Each sends its result through a pipe, in one line of Base64.
#
# Run: ruby examples/legacy/cpu_bound_processes.rb PROCESSES ITERATIONS
# The table: nb bench f2. In a loop, NB.in_process { } does the same.

processes, iterations = ARGV.map { |word| Integer(word) }
abort "usage: cpu_bound_processes.rb PROCESSES ITERATIONS" unless processes&.positive? && iterations

share = iterations / processes
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
pipes = Array.new(processes) do |number|
  reader, writer = IO.pipe
  fork do
    reader.close
    sum = ((number * share)...((number + 1) * share)).inject(0) { |all, one| all + one }
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

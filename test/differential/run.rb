# frozen_string_literal: true

# `rake fuzz:differential[1000000,1]`: counts every class of difference, with its shortest example.

require_relative "comparison"

count = Integer(ARGV[0] || 1_000_000)
seed = Integer(ARGV[1] || 1)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
run = Differential::Run.new(seed).run(count)
run.report($stdout)
unexplained = run.examples.keys - Differential::Page.classes.keys
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "#{count} messages of seed #{seed} in #{seconds.round} s: we take #{run.taken}; " \
     "#{run.examples.size} classes of difference, not explained: #{unexplained.inspect}"
exit unexplained.empty?

# frozen_string_literal: true

require_relative "run"

vendor = ARGV.fetch(0, "opentelemetry")
count = Integer(ARGV.fetch(1, "10000"))
require_relative "vendors/#{vendor}_spans"
name = Tracing.constants.find { |one| one.to_s.downcase == "#{vendor}spans" }
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
how = { server: ARGV.fetch(2, "nb"), kinds: Integer(ARGV.fetch(3, "2")) }
run = Tracing::Run.new(Tracing.const_get(name), **how).call(count)
Servers.stop_all
errors = run.log.scan(/^.*(?:detach|stack level|ERROR --).*$/i)
puts run.check.wrong.first(20), errors.first(20)
printf("%s: %d requests, %d spans, %d wrong, %d errors of the agent, %.0f s\n", vendor, count,
       run.check.size, run.check.wrong.size, errors.size,
       Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
exit run.check.wrong.empty? && errors.empty?

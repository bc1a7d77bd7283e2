# frozen_string_literal: true

require_relative "helper"
require_relative "../support/subprocess"

# Table B3 divides by the number of switches: it must be the number that happened.
class BenchSwitchesTest < Minitest::Test
  # Way => the methods that switch, and how often they are called besides.
  # (the workload's own #resume; #gather, which waits for two jobs).
  CALLS = { "resume" => [%i[resume yield], 1], "queue" => [%i[pop], 2],
            "pipe" => [%i[readpartial], 0] }.freeze

  # A trace sees all threads, so the process is its own.
  CALLS.each do |way, (methods, besides)|
    define_method("test_#{way}_counts_the_switches_that_it_makes") do
      result = Subprocess.ruby(<<~RUBY, loaded: false, limit: 60)
        require "./bench/bench"
        require "./bench/frame/workload"
        require "./bench/workloads/switches"
        runtime = Bench.runtimes.fetch("threads")
        params = { way: #{way.inspect}, turns: 40 }
        made = Bench::Workloads::Switches.made(runtime, params: params, seconds: 0)
        seen = Thread::Queue.new
        trace = TracePoint.new(:c_call, :call) do |point|
          seen << 1 if #{methods}.include?(point.method_id)
        end
        trace.enable
        counted = runtime.run { made.round }
        trace.disable
        p [seen.size - #{besides}, counted]
      RUBY
      seen, counted = result.out.scan(/\d+/).map(&:to_i)
      assert_operator seen.to_i, :>, 0, result.err
      assert_equal seen, counted
    end
  end
end

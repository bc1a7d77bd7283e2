# frozen_string_literal: true

# One cell: runs one workload once under one runtime and prints one line of JSON. Started by
# {Bench::Launcher} in a fresh process; never loads more of the bench than it needs.
#
#   ruby bench/child.rb '{"workload": "tcp_echo", "runtime": "threads", "params": {}, "seconds": 1}'

require "json"

module Bench
  @runtimes = {}

  # Stands in for the registry: the runtime's file calls it.
  def self.runtime(id, &block)
    @runtimes[id] = Runtime.new(id, &block)
  end

  # @return [Hash{String => Runtime}] the one that was loaded
  def self.runtimes = @runtimes
end

require_relative "frame/runtime"
require_relative "frame/workload"

order = JSON.parse(ARGV.fetch(0), symbolize_names: true)
require_relative "runtimes/#{order.fetch(:runtime)}"
require_relative "workloads/#{order.fetch(:workload)}"

order.fetch(:gems, {}).each { |name, version| gem name.to_s, version }
runtime = Bench.runtimes.fetch(order.fetch(:runtime))
result = Bench::Workload.named(order.fetch(:workload)).run(runtime, order)
$stdout.puts(JSON.generate(result))

# frozen_string_literal: true

# One cell: runs one workload once under one runtime and prints one line of JSON. Started as a
# {Bench::Cell} in a fresh process; never loads more of the bench than it needs.
#
#   ruby bench/child.rb '{"workload": "tcp_echo", "runtime": "threads", "file": "threads",
#                         "params": {}, "seconds": 1}'

require "json"

require_relative "frame/root"
require_relative "frame/command"
require_relative "frame/compiled"
require_relative "frame/runtime"
require_relative "frame/registry"
require_relative "frame/workload"

order = JSON.parse(ARGV.fetch(0), symbolize_names: true)
require_relative "runtimes/#{order.fetch(:file)}"
require_relative "workloads/#{order.fetch(:workload)}"

order.fetch(:gems, {}).each { |name, version| gem name.to_s, version }
runtime = Bench.loaded_runtime(order.fetch(:runtime))
result = Bench::Workload.named(order.fetch(:workload)).run(runtime, order)
$stdout.puts(JSON.generate(result))

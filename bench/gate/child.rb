# frozen_string_literal: true

# One of two processes that take turns: whenever a line comes in, it works for a moment and prints
# its CPU seconds per operation; an error ends it. Started by {Bench::Gate::Player}, which puts the
# library first in the load path.
#
#   ruby -Ilib bench/gate/child.rb '{"workload": "tcp_echo", "params": {}}'

require "json"

require_relative "../frame/root"
require_relative "../frame/runtime"
require_relative "../frame/registry"
require_relative "../frame/workload"

order = JSON.parse(ARGV.fetch(0), symbolize_names: true).merge(seconds: 0)
require_relative "../runtimes/nb"
require_relative "../workloads/#{order.fetch(:workload)}"

# CPU seconds of a turn at least: far above the clock's resolution.
TURN = 0.015
workload = Bench::Workload.named(order.fetch(:workload)).made(Bench.loaded_runtime("nb"), order)
$stdout.sync = true
workload.runtime.run do
  workload.prepare
  workload.round # warm now
  $stdout.puts("ready")
  while $stdin.gets
    cost = workload.turn(TURN)
    abort(workload.first_error) if workload.first_error
    $stdout.puts(cost)
  end
  exit!(0) # what the workload keeps waiting is not waited for
end

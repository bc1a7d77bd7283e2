# frozen_string_literal: true

require_relative "stress_run"

# The modes of test/support/garbage.rb, and the tests that run in each.
GC_SHORT = %w[queue close descriptor select].freeze
GC_STRESSED = %w[sleep queue close descriptor select timeout io_timeout stream datagram message lock
                 fiber thread file wait interrupt resolve fork].freeze
# They count connections by the thousand, measure costs, or need other programs.
GC_SERVER_LEFT_OUT = %w[soak crowd cost systemd browser proxies cluster_load differential slow
                        slow_reader].freeze
# These collect, move and call GC.verify_compaction_references in every run of their suite.
GC_ITSELF = %w[test/contract/gc_test.rb test/server/gc_test.rb].freeze

namespace :gc do
  garbage = lambda do |mode, files, **how|
    options = "-r#{File.expand_path("test/support/garbage.rb")}"
    StressRun.new("gc #{mode}", {"NB_GC" => mode, "RUBYOPT" => options}).run(files, **how)
  end
  contract = ->(names) { names.flat_map { |name| Dir["test/contract/#{name}_test.rb"] } }

  desc "Run the main waits while the collector moves (a minute)"
  task short: :compile do
    garbage.call("compact", contract[GC_SHORT], at_once: 2)
    garbage.call("move", ["test/server/basics_test.rb"] + contract[%w[descriptor]], at_once: 2)
  end

  desc "Run contract and server with GC.auto_compact"
  task compact: :compile do
    server = Dir["test/server/*_test.rb"].sort
    left_out = GC_SERVER_LEFT_OUT.map { |name| "test/server/#{name}_test.rb" }
    garbage.call("compact", Dir["test/contract/*_test.rb"].sort + server - left_out - GC_ITSELF)
  end

  desc "Run the contract while the heap is compacted at every 300th call of ours"
  task move: :compile do
    garbage.call("move", contract[GC_STRESSED] + ["test/server/basics_test.rb"])
  end

  desc "Run the contract with GC.stress in one of 20 calls of ours"
  task stress: :compile do
    garbage.call("stress", contract[GC_STRESSED] + ["test/server/basics_test.rb"])
  end
end

desc "Run contract and server while the collector compacts, moves and stresses"
task gc: %w[gc:compact gc:move gc:stress]

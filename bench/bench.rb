# frozen_string_literal: true

# The measuring bench: one file per published table, one process per sample, every sample kept.
#
# @example Measure two tables and write the page
#   results = Bench::Session.new(tables: Bench.tables.values_at("a3", "a5"), quick: true).run
#   Bench::Report::Terminal.new($stdout).print(results)
#   Bench::Report::Page.new(results).write("tmp/report/index.html")
#
# Nothing here loads the gem itself: the parent process only starts cells and counts.
module Bench; end

require_relative "frame/root"
require_relative "frame/command"
require_relative "frame/statistics"
require_relative "frame/estimate"
require_relative "frame/figure"
require_relative "frame/grid"
require_relative "frame/axis"
require_relative "frame/view"
require_relative "frame/table"
require_relative "frame/table_builder"
require_relative "frame/runtime"
require_relative "frame/registry"
require_relative "frame/restriction"
require_relative "tables"
require_relative "rows"
require_relative "frame/claim"
require_relative "claims"
require_relative "frame/ruby_target"
require_relative "frame/gem_home"
require_relative "frame/compiled"
require_relative "frame/database"
require_relative "frame/server"
require_relative "frame/kernel_file"
require_relative "frame/machine"
require_relative "frame/maps"
require_relative "frame/neighbours"
require_relative "frame/sampler"
require_relative "frame/order"
require_relative "frame/turns"
require_relative "frame/child_process"
require_relative "frame/cell"
require_relative "frame/launcher"
require_relative "frame/run"
require_relative "frame/journal"
require_relative "frame/result"
require_relative "frame/progress"
require_relative "frame/part"
require_relative "frame/prerequisites"
require_relative "frame/session"
require_relative "report/report"

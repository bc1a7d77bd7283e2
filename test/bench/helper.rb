# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../../bench/bench"

# What the tests of the bench share: results made of numbers instead of measurements.
module BenchHelper
  SESSION = {
    "label" => "Ruby 3.4.5", "ruby" => "3.4.5", "description" => "ruby 3.4.5 [x86_64-linux]",
    "at" => "2026-11-21T04:00:00Z",
    "options" => { "quick" => false, "pairs" => 3, "seconds" => 5.0 },
    "machine" => { "cpu" => "a CPU", "cores" => 2, "memory_mb" => 2048, "kernel" => "Linux 6",
                   "load" => 0.1, "commit" => "abc" }
  }.freeze

  # A table of two runtimes and three columns.
  def table
    Bench::TableBuilder.build("t1") do
      title "A test"
      question "Which is <faster>?"
      source article: "Article", author: "Author", year: 2008
      differs "Not at all."
      axis :runtime, %w[threads nb]
      axis :delay_ms, [0, 10, 100], title: "delay", unit: "ms", quick: [0, 100]
      workload "churn", jobs: 10
      again { |cell| cell[:runtime] == "nb" }
      view("T1", title: "Rate", unit: "req/s", rows: :runtime, columns: :delay_ms,
                 compare: "nb", chart: :lines) do
        published "threads, 2008", [1000, 900, 100], like: "threads"
        limit("ideal") { 4000 }
      end
    end
  end

  # @param rates [Hash] [runtime, delay] => numbers, one per pass
  # @param again [Hash] the same for the second samples
  def result(rates, again: {}, table: self.table)
    runs = samples(rates, false) + samples(again, true)
    Bench::Result.new(table, sessions: [SESSION], runs: runs)
  end

  def usual_result
    result({ ["threads", 0] => [1000, 1100, 1050] * 2, ["nb", 0] => [2000, 2210, 2090] * 2,
             ["threads", 10] => [800] * 6, ["nb", 10] => [1600] * 6,
             ["threads", 100] => [500] * 6, ["nb", 100] => [500] * 6 },
           again: { ["nb", 0] => [2010, 2200, 2090] * 2 })
  end

  # Where a cell finds gems: those of the tests, at whatever version.
  TestGems = Struct.new(:environment) do
    def gems = {}
  end

  # One cell in a process of its own, as short as can be.
  #
  # @param id [String] of a table
  # @param params [Hash] of the cell
  # @param port [Integer, nil] of the table's server
  # @param ports [Hash{Symbol => Integer}] of its servers, where it has several
  # @return [Hash] the sample
  def cell(id, params, port: nil, ports: nil)
    table = Bench.tables.fetch(id)
    gems = TestGems.new(ENV.to_h.slice("GEM_HOME", "GEM_PATH"))
    launcher = Bench::Launcher.new(Bench::RubyTarget.new(yjit: false),
                                   ports: ports || { table.servers.first => port },
                                   homes: { table.runtime_of(params) => gems })
    launcher.call(table, [params], 0.01).first
  end

  private

  def samples(rates, again)
    rates.flat_map do |(runtime, delay), values|
      values.each_with_index.map do |value, pass|
        Bench::Run.new("params" => { "runtime" => runtime, "delay_ms" => delay }, "pass" => pass,
                       "again" => again,
                       "sample" => { "value" => value, "elapsed" => 2.0, "cpu" => 1.0,
                                     "errors" => 0, "metrics" => { "twice" => value * 2 },
                                     "notes" => [] })
      end
    end
  end
end

# frozen_string_literal: true

require "minitest/autorun"
require "stringio"
require "tmpdir"
require_relative "../../lib/neverblock/cli"
require_relative "../../lib/neverblock/cli/bench"
require_relative "../../bench/bench"

class BenchCommandTest < Minitest::Test
  COMMAND = NB::CLI::Bench

  def test_the_list_names_every_table_with_its_question
    output, = capture_io { assert_equal 0, COMMAND.run(%w[--list]) }

    assert_match(/^a5 +A thousand requests/, output)
    assert_match(/A5, A5 CPU, A5 share, A6; about \d+:\d\d.* for the first look/, output)
  end

  def test_what_is_unknown_is_named_with_what_is_known
    { %w[zz] => /\Ano table "zz": known are a3/,
      %w[a5 --only node] => /no runtime node; known are agoo/,
      %w[--pairs many] => /\Ainvalid argument: --pairs many/,
      %w[a5 --pairs 0] => /\A--pairs: must be 1 or more, got: 0\z/,
      %w[a5 --runs 100] => /\A--runs: only f1 and f2 have them, not a5/,
      %w[b1 --maps some] => /\Ainvalid argument: --maps some/,
      %w[--budget soon] => /a time such as 90s, 12m or 2h, got: "soon"/,
      %w[--where speed=9] => /an axis of a table and its values.*got: "speed=9"; no table has/,
      %w[--where connections] => /got: "connections"/,
      %w[--where connections=65] => /"connections=65"; connections has .*64/ }.each do |words, text|
      assert_match text, assert_raises(NB::CLI::UsageError) { COMMAND.run(words) }.message
    end
  end

  # A restriction that a table cannot obey.
  def test_a_where_that_fits_no_table_measures_nothing
    { %w[a5 -w connections=64] => "--where connections=64: a5 has no such axis",
      %w[e4_ab -w clients=200] => "--where clients=200: e4_ab has clients=10000,1000",
      %w[a5 s1 -w connections=64] =>
        "--where restricts nothing of a5: its axes are runtime, delay_ms",
      %w[e4 e4_ab -w clients=200] =>
        "--where clients=200 leaves nothing of e4_ab: it has clients=10000,1000" }
      .each do |words, text|
      error = assert_raises(NB::CLI::UsageError) { COMMAND.run([*words, "--out", "/nonexistent/x"]) }
      assert_equal text, error.message
    end
  end

  def test_an_only_that_leaves_nothing_says_so
    Dir.mktmpdir do |directory|
      error = assert_raises(NB::CLI::UsageError) do
        COMMAND.run(["a5", "--only", "puma", "--busy", "--out", directory])
      end
      assert_equal "nothing to measure: no cell of a5 is left", error.message
    end
  end

  def test_a_where_for_several_tables_need_not_fit_each_of_them
    where = { "connections" => %w[64], "queries" => %w[20], "workers" => %w[1] }
    assert_nil Bench::Restriction.check(Bench.select(%w[t1 t3 t4 t6]), where, named: true)
    assert_nil Bench::Restriction.check(Bench.tables.values, { "queries" => %w[20] }, named: false)
  end

  def test_several_directories_are_reported_together
    Dir.mktmpdir do |directory|
      old, new = %w[old new].map { |name| File.join(directory, name) }
      short = %w[--quick --pairs 1 --seconds 0.01 --only fibers --busy --out]
      [["b1", old], ["b3", old], ["b3", new]].each do |id, out|
        capture_io { assert_equal 0, COMMAND.run([id, *short, out]) }
      end
      text, = capture_io { assert_equal 0, COMMAND.run(["--report", old, "--report", new]) }

      assert_match(/^B1: .*^B3: .*^Samples: #{old}, #{new}$/m, text)
      assert_path_exists File.join(new, "index.html")
      results = Bench::Result.load(old, new).map { |one| one.table.id }
      assert_equal %w[b1 b3 b3], results
    end
  end

  def test_one_empty_directory_of_several_is_refused
    Dir.mktmpdir do |empty|
      full = File.join(Bench::ROOT, "bench/results/2026-11-26-quiet")
      _, errors = capture_io { COMMAND.run(["--report", full, "--report", empty]) }

      assert_equal "nb bench: no results in #{empty}\n", errors
    end
  end

  def test_a_directory_without_results_is_refused
    Dir.mktmpdir do |directory|
      _, errors = capture_io { assert_equal 1, COMMAND.run(["--report", directory]) }

      assert_match(/no results in/, errors)
    end
  end

  def test_a_table_is_measured_and_reported_again
    Dir.mktmpdir do |directory|
      short = %w[b3 --quick --pairs 1 --seconds 0.01 --only fibers --busy]
      first, = capture_io { assert_equal 0, COMMAND.run([*short, "--out", directory]) }
      second, = capture_io { assert_equal 0, COMMAND.run(["b3", "--report", directory]) }

      assert_match(/plain fibers +\d/, first)
      assert_equal first, second
      assert_path_exists File.join(directory, "index.html")
    end
  end
end

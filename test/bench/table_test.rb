# frozen_string_literal: true

require_relative "helper"

class BenchTableTest < Minitest::Test
  include BenchHelper

  def test_a_table_without_its_parts_names_them
    error = assert_raises(ArgumentError) { Bench::TableBuilder.build("x") { title "x" } }

    assert_match(/missing question, differs, workload, sources, axes/, error.message)
  end

  def test_a_table_names_what_its_cells_run_on
    assert_equal "rails", Bench.tables["e2"].runtime_of({ clients: 10 })
    assert_equal "nb", Bench.tables["a5"].runtime_of({ runtime: "nb" })
  end

  def test_each_table_is_a_file_of_its_name
    files = Dir[File.join(Bench::HOME, "tables", "*.rb")].map { |path| File.basename(path, ".rb") }

    assert_equal files.sort, Bench.tables.keys.sort
  end

  def test_a_runtime_of_several_sizes_shares_its_file_and_gems
    small, usual = Bench.runtimes.values_at("puma_1", "puma")

    assert_equal ["Puma, 1 thread", "Puma, 5 threads"], [small.label, usual.label]
    assert_equal %w[puma puma], [small.file, small.home]
    assert_equal usual.gems_for(Gem::Version.new("3.4")), small.gems_for(Gem::Version.new("3.4"))
  end

  def test_the_order_names_tables_that_exist
    assert_empty Bench::TABLES - Bench.tables.keys
  end

  def test_an_unknown_axis_names_the_known_ones
    error = assert_raises(KeyError) { table.axis(:speed) }

    assert_match(/no axis :speed, only: \[:runtime, :delay_ms\]/, error.message)
  end

  def test_quick_takes_a_part_of_the_columns
    assert_equal 6, table.groups.flatten.size
    assert_equal 4, table.groups(quick: true).flatten.size
  end

  def test_a_direction_that_is_none_is_refused
    assert_raises(ArgumentError) do
      Bench::View.new(table, "V", title: "", unit: "", rows: :runtime, columns: :delay_ms,
                                  better: :best)
    end
  end

  def test_select_finds_tables_by_id_and_by_view
    assert_equal %w[a5], Bench.select(%w[A6]).map(&:id)
    assert_equal %w[b1 a5], Bench.select(%w[b1 a5 A5]).map(&:id)
    error = assert_raises(Bench::Misuse) { Bench.select(%w[zz]) }
    assert_match(/no table "zz": known are a3, a4/, error.message)
  end

  Bench.tables.each_value do |table|
    define_method("test_#{table.id}_is_complete") do
      assert_path_exists File.join(Bench::HOME, "workloads", "#{table.workload}.rb")
      refute_empty table.views
      refute_empty table.groups(quick: true).flatten
      table.groups.flatten.each do |cell|
        assert Bench.runtimes.key?(table.runtime_of(cell)), "no runtime #{cell[:runtime]}"
      end
    end

    # A view that leaves an axis open would show the samples of the wrong cells.
    define_method("test_every_view_of_#{table.id}_finds_its_cells") do
      cells = table.groups.flatten
      runs = cells.map do |cell|
        Bench::Run.new("params" => cell.transform_keys(&:to_s), "pass" => 0, "again" => false,
                       "sample" => { "value" => 1.0, "metrics" => Hash.new(1.0), "errors" => 0 })
      end
      result = Bench::Result.new(table, sessions: [BenchHelper::SESSION], runs: runs)

      assert_equal table.views.map(&:id), result.grids.map(&:id)
    end
  end
end

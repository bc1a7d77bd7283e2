# frozen_string_literal: true

require "minitest/autorun"
require "csv"
require "tmpdir"
require_relative "../support/program"
require_relative "../support/timing"
require_relative "../../lib/neverblock/cli"
require_relative "../../lib/neverblock/cli/rubyhttp"

# `nb rubyhttp`: every way of reading brings every byte, the columns are those of the study.
class RubyhttpTest < Minitest::Test
  LENGTH = 200_000

  # @return [Array<Hash>] rows by column
  def measure(*arguments)
    out, errors, status = Program.nb("rubyhttp", "-l", LENGTH.to_s, *arguments)
    assert_equal ["", 0], [errors, status.exitstatus]
    table = CSV.parse(out, headers: true)
    assert_equal NB::CLI::Rubyhttp::COLUMNS, table.headers
    table.map(&:to_h)
  end

  def test_every_way_brings_the_whole_file
    rows = measure("-S", "dallas,seattle")

    expected = %w[dallas seattle].product(NB::CLI::RubyhttpClients::VARIANTS.keys)
    assert_equal expected, (rows.map { |row| row.values_at("Site", "Impl") })
    rows.each { |row| assert_in_delta LENGTH / 1024.0, row["KBytes Transferred"].to_f, 0.1 }
  end

  def test_chunks_are_as_large_as_the_buffer_and_percent_is_cpu_by_clock
    rows = measure("-S", "dallas", "-i", "custom-1kbuffer-timeout,custom-64kbuffer-select")

    assert_equal %w[1024 65536], (rows.map { |row| row["Max chunk size"] }).map(&:to_s)
    rows.each do |row|
      count, mean = row.values_at("Chunk count", "Mean chunk size").map(&:to_f)
      assert_in_delta LENGTH, count * mean, count
      cpu, seconds = row.values_at("Total CPU Time", "Clock time").map(&:to_f)
      assert_in_delta cpu / seconds * 100, row["% CPU usage"].to_f, 5
    end
  end

  def test_a_slow_site_keeps_to_its_pace
    fast, slow = measure("-S", "dallas,london", "-i", "stock").map { |row| row["Clock time"].to_f }

    assert_operator slow, :>=, 0.11 + (LENGTH / 5e6) - 0.02
    assert_in_time fast, slow, "a fast site is as slow"
  end

  def test_the_bodies_are_the_same
    bodies = NB::CLI::RubyhttpSites.open(150_000, %w[dallas]) do |ports|
      NB::CLI::RubyhttpClients::VARIANTS.keys.map do |name|
        body = +""
        NB::CLI::RubyhttpClients.get(name, ports.fetch("dallas")) { |chunk| body << chunk }
        body
      end
    end

    assert_equal [150_000], bodies.uniq.map(&:bytesize)
  end

  def test_combine
    Dir.mktmpdir do |folder|
      paths = %w[a b].map { |name| File.join(folder, "#{name}.csv") }
      row = ["dallas", "stock", *Array.new(11, 1)].join(",")
      paths.each { |path| File.write(path, "#{NB::CLI::Rubyhttp::COLUMNS.join(",")}\n#{row}\n") }
      out, = Program.nb("rubyhttp", "combine", *paths)

      assert_equal ["File,#{NB::CLI::Rubyhttp::COLUMNS.join(",")}", "a,#{row}", "b,#{row}"],
                   out.lines.map(&:chomp)
    end
  end

  { %w[-i nothing] => "unknown: \"nothing\"", %w[-S paris] => "unknown: \"paris\"",
    %w[-l 5q] => "not a length", %w[x] => "takes no argument", %w[-z] => "invalid option",
    %w[combine] => "combine needs files", %w[combine /nowhere] => "No such file",
    ["combine", __FILE__] => "was not written by nb rubyhttp" }.each do |arguments, message|
    define_method("test_says_what_is_wrong_with_#{arguments.join("_")}") do
      error = assert_raises(NB::CLI::UsageError) do
        capture_io { NB::CLI::Rubyhttp.run(arguments) }
      end
      assert_includes error.message, message
    end
  end
end

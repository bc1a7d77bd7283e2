# frozen_string_literal: true

require "minitest/autorun"
require "json"
require "tmpdir"
require_relative "../support/program"
require_relative "../../lib/neverblock/cli"

# `nb iotest suite -J` writes what `nb iotest findings` reads.
class IotestFindingsTest < Minitest::Test
  def setup = @folder = Dir.mktmpdir
  def teardown = FileUtils.rm_rf(@folder)

  def row(transfer, seconds, cpu: 1.0, cold: false)
    ends = { "seconds" => seconds, "cpu_user" => cpu, "cpu_system" => 0 }
    { transfer: transfer, program: "nb", bytes: 1_000_000_000, cold: cold, client: ends,
      server: ends }
  end

  def write(name, *rows)
    File.join(@folder, name).tap do |path|
      File.write(path, rows.map { |one| "#{JSON.generate(one)}\n" }.join)
    end
  end

  def findings(*paths)
    out, errors, status = Program.nb("iotest", "findings", *paths)
    assert_equal ["", 0], [errors, status.exitstatus]
    out.lines.to_h { |line| [line[15..].strip, line[0, 15].strip] }
  end

  def test_each_verdict
    warm = write("warm", row("network", 2.0), row("network, larger chunks", 1.0, cpu: 2.0),
                 row("network, without copying", 1.0, cpu: 1.98), row("client's disk", 0.9))
    found = findings(warm, write("cold", row("client's disk", 3.0, cold: true)))

    { "Larger chunks and buffers make the network faster (2.000 s, 1.000 s)" => "holds",
      "TransmitPackets needs less CPU time than sends (2.00 s/GB, 1.98 s/GB)" => "no difference",
      "Reading a file makes the transfer slower (0.900 s, 1.000 s)" => "does not hold",
      "Writing a file makes the transfer slower" => "not measured",
      "A file that was read before comes faster, from memory (3.000 s, 0.900 s)" => "holds",
      "TransmitPackets fails for more than 64 K at a time (256 K at a time, all arrived)" =>
        "does not hold" }.each { |text, verdict| assert_equal verdict, found[text], text }
    assert_equal 8, found.size
  end

  def test_of_several_files_the_median_counts
    paths = [1.0, 9.0, 2.0].each_with_index.map do |seconds, index|
      write(index.to_s, row("network", seconds), row("network, larger chunks", 1.0))
    end

    text = "Larger chunks and buffers make the network faster (2.000 s, 1.000 s)"

    assert_equal "holds", findings(*paths)[text]
  end

  def test_the_suite_writes_such_rows
    out, errors, status = Program.nb("iotest", "suite", "-J", "100k")
    assert_equal 0, status.exitstatus, errors
    rows = out.lines.map { |line| JSON.parse(line) }

    assert_equal [7, 7], (%w[nb C].map { |name| rows.count { |one| one["program"] == name } })
    assert_equal [[100_000, false]], rows.map { |one| one.values_at("bytes", "cold") }.uniq
    refute_includes findings(write("suite", *rows)).values.first(6), "not measured"
  end

  { %w[] => "findings needs files", %w[/nowhere] => "No such file",
    [__FILE__] => "was not written by nb iotest suite -J" }.each do |arguments, message|
    define_method("test_says_what_is_wrong_with_#{arguments.map { |one| File.basename(one) }}") do
      out, errors, status = Program.nb("iotest", "findings", *arguments)

      assert_equal ["", 2], [out, status.exitstatus]
      assert_includes errors, message
    end
  end

  def test_an_empty_file
    _, errors, status = Program.nb("iotest", "findings", write("empty"))

    assert_equal 2, status.exitstatus
    assert_includes errors, "no rows in"
  end
end

# frozen_string_literal: true

require_relative "helper"
require "fileutils"
require "pathname"
require_relative "../../bench/transfers/page"

# docs/TRANSFERS.md says what its samples say; a measurement takes only what is missing.
class BenchTransfersTest < Minitest::Test
  Transfers = Bench::Transfers
  COLUMNS = NB::CLI::RubyhttpCell::COLUMNS.join(",")

  def setup
    @directory = Dir.mktmpdir
    @folder = File.join(@directory, "transfers")
    FileUtils.mkdir_p(@folder)
  end

  def teardown = FileUtils.rm_rf(@directory)

  def test_the_page_is_what_its_samples_say
    directory = Transfers::Page.directory

    assert_equal Transfers::Page.new(directory).to_s,
                 File.read(Transfers::Page::PATH, encoding: "UTF-8"),
"run: rake transfers"
  end

  def test_the_page_is_short_enough_to_read
    assert_operator File.readlines(Transfers::Page::PATH).size, :<=, 250
  end

  def test_every_command_of_the_page_exists
    Transfers::PARTS.each_value do |part|
      assert_includes NB::CLI::COMMANDS.keys, part.words.first
      assert_match(/\Anb (?:rubyhttp -i|iotest suite)/, part.command)
    end
  end

  def test_every_test_that_the_page_names_exists
    tests = %w[iotest rubyhttp].map do |name|
      File.read(File.join(Bench::ROOT, "test/cli/#{name}_test.rb"))
    end.join
    names = File.read(Transfers::Page::PATH, encoding: "UTF-8").scan(/`test_(\S+)`/).flatten
    made, written = names.partition { |name| name.start_with?("says_what_is_wrong_with_") }

    assert_operator written.size, :>=, 4
    written.each { |name| assert_includes tests, "def test_#{name}\n" }
    made.each do |name|
      assert_includes tests, name.delete_prefix("says_what_is_wrong_with_").tr("_", " ")
    end
  end

  def download(pass, **seconds)
    rows = seconds.map do |client, cpu|
      "dallas,#{client},1024,1000,64,16384,63,16384,#{cpu},0,#{cpu},2,#{cpu * 50}\n"
    end
    File.write("#{@folder}/http-3.4.5-#{pass}.csv", "#{COLUMNS}\n#{rows.join}")
  end

  def facts(pass, others: 0.0)
    line = { file: "http-3.4.5-#{pass}.csv", at: "2026-11-28T04:00:00Z", others: others,
             ruby: "ruby 3.4.5 (x)", machine: BenchHelper::SESSION["machine"] }
    File.write("#{@folder}/passes.jsonl", "#{JSON.generate(line)}\n", mode: "a")
  end

  def verdict(*slower)
    slower.each.with_index(1) do |cpu, pass|
      download(pass, "custom-64kbuffer-notimeout": cpu, "custom-16kbuffer-notimeout": 1.0)
      facts(pass, others: pass == 1 ? 0.5 : 0)
    end
    found = Transfers::Samples.new(@directory).download_findings("3.4.5")
    found.find { |one| one.text.start_with?("64 KB is worse") }
  end

  def test_passes_that_agree_decide
    found = verdict(1.2, 1.3, 1.4, 1.5, 1.6, 1.7)

    assert_equal "holds", found.verdict
    [1.2, 1.45, 1.7].zip(found.ratios) { |expected, ratio| assert_in_delta expected, ratio, 0.001 }
  end

  def test_passes_that_differ_do_not
    found = verdict(1.2, 1.3, 1.4, 1.5, 1.6, 0.7)

    assert_equal "undecided (holds 5, does not hold 1)", found.verdict
  end

  def test_fewer_passes_do_not
    assert_equal "does not hold, in 2 passes of 6", verdict(0.7, 0.8).verdict
  end

  def test_the_page_tells_of_other_programs_and_of_what_is_missing
    verdict(1.2, 1.3)
    relative = Pathname(@directory).relative_path_from(Pathname(Bench::ROOT)).to_s
    page = Transfers::Page.new(relative).to_s

    assert_includes page, "Other programs used more than 5 % of a core during 1 of 2 files."
    assert_includes page, "## AsyncIoTest (2006)\n\nNot measured.\n"
    assert_includes page, "| custom-64kbuffer-notimeout |"
  end

  def test_a_directory_without_samples
    error = assert_raises(Bench::Error) { Transfers::Samples.new(@directory) }

    assert_includes error.message, "no transfers in #{@directory} (rake transfers:measure["
  end

  def test_only_what_is_missing_is_measured
    named = "sites-#{RUBY_VERSION}-1.csv"
    File.write(File.join(@folder, named), "kept")
    told = []
    Transfers::Measurement.new(@directory, %w[sites], passes: 1).run { |text| told << text }

    assert_equal ["kept", []], [File.read(File.join(@folder, named)), told]
  end

  def test_a_part_that_is_none
    error = assert_raises(Bench::Error) { Transfers::Measurement.new(@directory, %w[sites paris]) }

    assert_equal "no part paris; known are #{Transfers::PARTS.keys.join(", ")}", error.message
  end

  def test_a_command_is_measured_whole_or_not_at_all
    short = Transfers::Part.new(%w[rubyhttp -i stock -S dallas -l 10k], "csv", 1)
    wrong = Transfers::Part.new(%w[rubyhttp -i nothing], "csv", 1)
    measurement = Transfers::Measurement.new(@directory, [])
    measurement.send(:measure, short, File.join(@folder, "http-#{RUBY_VERSION}-1.csv"))
    _, errors = capture_subprocess_io do
      assert_raises(Bench::Error) { measurement.send(:measure, wrong, "#{@folder}/wrong.csv") }
    end

    assert_includes errors, "unknown: \"nothing\""
    assert_equal ["http-#{RUBY_VERSION}-1.csv", "passes.jsonl"], Dir.children(@folder).sort
    assert_equal 1, Transfers::Samples.new(@directory).facts.size
  end
end

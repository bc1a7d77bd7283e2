# frozen_string_literal: true

require_relative "helper"
require_relative "../../lib/neverblock/cli"

# Whatever the articles have is run by a command that exists, and answered on a page that exists.
class BenchRowsTest < Minitest::Test
  Page = Bench::Report::Rows
  # How many rows each study has.
  STUDIES = { "A" => 8, "B" => 3, "C" => 6, "D" => 5, "E" => 5, "F" => 7, "G" => 9 }.freeze
  IDS = [*STUDIES.flat_map { |letter, count| (1..count).map { |n| "#{letter}#{n}" } },
         *%w[H1 H2 H2a H2b H2c H2d H2e H3], *(1..10).map { |n| "I#{n}" }].freeze

  def rows = Bench::ROWS.values.flatten(1)

  def test_no_row_is_missing
    assert_equal 61, IDS.size
    assert_equal IDS, rows.map(&:id)
  end

  def test_the_page_is_what_the_rows_say
    assert_equal Page.to_s, File.read(Page::PATH, encoding: "UTF-8"), "run: rake experiments"
  end

  Bench::ROWS.each_value do |rows|
    rows.each do |row|
      define_method("test_#{row.id}_has_a_command") { check_command(row) }

      define_method("test_#{row.id}_has_a_page") do
        path, anchor = Page.page(row).split("#")
        full = File.expand_path(path, File.dirname(Page::PATH))

        assert_path_exists full
        assert_includes anchors(full), anchor if anchor
      end
    end
  end

  def check_command(row)
    case row.command
    when %r{\A(?:\w+=\w+ )*(?:ruby -Ilib|bin/test) (\S+\.rb)\z}
      assert_path_exists File.join(Bench::ROOT, $1)
    when /\Anb bench / then refute_empty Page.tables(row)
    when /\Anb (\w+)(?: (\S+\.ru))?/
      assert_includes NB::CLI::COMMANDS.keys, $1
      assert_path_exists File.join(Bench::ROOT, $2) if $2
    when %r{\Abin/test (\w+)\z} then assert_includes suites, $1
    else flunk("#{row.id} has no command: #{row.command.inspect}")
    end
  end

  def suites
    File.read(File.join(Bench::ROOT, "rakelib", "suites.rb")).scan(/Suite\.new\("(\w+)"/).flatten
  end

  def anchors(path)
    File.readlines(path, encoding: "UTF-8").grep(/^#+ /).map do |line|
      line.sub(/^#+ /, "").strip.downcase.gsub(/[^\p{Alnum}_\- ]/, "").tr(" ", "-")
    end
  end
end

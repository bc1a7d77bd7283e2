# frozen_string_literal: true

require_relative "helper"
require "fileutils"

# The numbers in the documentation come from the samples in the tree, and from nowhere else.
class BenchDocsTest < Minitest::Test
  DOCUMENT = File.join(Bench::ROOT, "docs", "BENCHMARKS.md")

  def test_the_document_is_what_its_samples_say
    directory = Bench::Report::Markdown.directory(DOCUMENT)
    refute_nil directory, "#{DOCUMENT} has lost its markers"

    Dir.mktmpdir do |scratch|
      copy = File.join(scratch, "BENCHMARKS.md")
      FileUtils.cp(DOCUMENT, copy)
      Bench::Report::Markdown.update(copy, results(directory), directory)

      assert_equal File.read(copy).rstrip, File.read(DOCUMENT).rstrip
    end
  end

  def test_the_document_stays_short_enough_to_read
    assert_operator File.readlines(DOCUMENT).size, :<=, 600
  end

  def test_links_to_its_sections_lead_there
    anchors = File.readlines(DOCUMENT).grep(/^##+ /).map { |line| anchor(line) }
    pages = [File.join(Bench::ROOT, "README.md"), *Dir[File.join(Bench::ROOT, "docs", "*.md")]]
    links = pages.flat_map { |path| File.read(path).scan(/BENCHMARKS\.md#([\w-]+)/).flatten }

    assert_operator links.size, :>, 5
    assert_empty links - anchors
  end

  def test_each_section_names_the_file_of_its_table
    paths = File.read(DOCUMENT).scan(%r{\(\.\./(bench/tables/\w+\.rb)\)}).flatten

    assert_operator paths.size, :>, 30
    assert_empty paths.reject { |path| File.exist?(File.join(Bench::ROOT, path)) }
  end

  def test_each_table_with_samples_has_a_section
    measured = results(Bench::Report::Markdown.directory(DOCUMENT)).map { |one| one.table.id }
    sections = File.read(DOCUMENT).scan(/^## (\w+): /).flatten.map(&:downcase)

    assert_empty measured - sections
  end

  def anchor(heading)
    heading.sub(/^#+ /, "").strip.downcase.gsub(/[^\p{Alnum}_\- ]/, "").tr(" ", "-")
  end

  # "-" names no directory: nothing has been measured for the document yet.
  def results(directory)
    directory == "-" ? [] : Bench::Result.load(File.join(Bench::ROOT, directory))
  end
end

# frozen_string_literal: true

require_relative "helper"
require "fileutils"

# The numbers in the documentation come from the samples in the tree, and from nowhere else.
class BenchDocsTest < Minitest::Test
  Markdown = Bench::Report::Markdown
  DOCUMENTS = Markdown::PAGES.keys.map { |name| File.join(Bench::ROOT, "docs", name) }.freeze

  DOCUMENTS.each do |path|
    name = File.basename(path)

    define_method("test_#{name}_is_what_its_samples_say") do
      assert_match Markdown::BEGINNING, File.read(path), "#{path} has lost its markers"
      directories = Markdown.directories(path)

      Dir.mktmpdir do |scratch|
        copy = File.join(scratch, name)
        FileUtils.cp(path, copy)
        named = directories.empty? ? "-" : directories.join(",")
        Markdown.update(copy, results(directories), named)

        assert_equal File.read(copy).rstrip, File.read(path).rstrip
      end
    end

    define_method("test_#{name}_stays_short_enough_to_read") do
      assert_operator File.readlines(path).size, :<=, 600
    end

    define_method("test_each_table_with_samples_has_a_section_in_#{name}") do
      ids = Markdown::PAGES.fetch(name)
      measured = results(Markdown.directories(path)).map { |one| one.table.id }.grep(ids)
      sections = File.read(path).scan(/^## (\w+): /).flatten.map(&:downcase)

      assert_equal measured.uniq.sort, sections.sort
    end

    define_method("test_each_comparison_lost_in_#{name}_names_a_section") do
      text = File.read(path)
      lost = text[/^Comparisons lost.*?^## /m].scan(/^- (\w+)/).flatten

      assert_operator lost.size, :>=, 10
      assert_empty lost.uniq - text.scan(/^## (\w+): /).flatten
    end
  end

  def test_every_table_is_on_one_page
    ids = Markdown::PAGES.values

    assert_empty(Bench.tables.keys.reject { |table| ids.one? { |pattern| pattern.match?(table) } })
  end

  def test_links_to_its_sections_lead_there
    pages = [File.join(Bench::ROOT, "README.md"), *Dir[File.join(Bench::ROOT, "docs", "*.md")]]
    DOCUMENTS.each do |path|
      anchors = File.readlines(path).grep(/^##+ /).map { |line| anchor(line) }
      link = /#{File.basename(path)}#([\w-]+)/
      links = pages.flat_map { |page| File.read(page).scan(link).flatten }

      assert_operator links.size, :>=, 5
      assert_empty links - anchors
    end
  end

  def test_each_section_names_the_file_of_its_table
    paths = DOCUMENTS.flat_map { |path| File.read(path).scan(%r{\(\.\./(bench/tables/\w+\.rb)\)}) }
    paths.flatten!

    assert_operator paths.size, :>, 30
    assert_empty paths.reject { |path| File.exist?(File.join(Bench::ROOT, path)) }
  end

  def anchor(heading)
    heading.sub(/^#+ /, "").strip.downcase.gsub(/[^\p{Alnum}_\- ]/, "").tr(" ", "-")
  end

  # Nothing may have been measured for the documents yet.
  def results(directories)
    return [] if directories.empty?

    Bench::Result.load(*directories.map { |path| File.join(Bench::ROOT, path) })
  end
end

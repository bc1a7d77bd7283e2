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

  # "-" names no directory: nothing has been measured for the document yet.
  def results(directory)
    directory == "-" ? [] : Bench::Result.load(File.join(Bench::ROOT, directory))
  end
end

# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/program"
require_relative "support/timing"
require_relative "../examples/side_by_side/compare"

# Every example prints what its head says, and every piece of Ruby in the README and in
# docs/COMING_FROM.md runs.
class ExamplesTest < Minitest::Test
  # The seconds after "took", which a busy machine makes longer, but never shorter.
  TOOK = /(?<=took )\d+\.\d+(?= s)/
  # Seconds. What waits side by side would take longer than that one after the other.
  SLACK = 0.25

  Dir[File.join(Program::ROOT, "examples", "*.rb")].sort.each do |path|
    name = File.basename(path, ".rb")

    define_method("test_#{name}_prints_what_it_says") do
      text = read(path)
      assert_operator text.lines.size, :<, 40
      assert_includes text, "# Run: ruby -Ilib examples/#{name}.rb\n"
      assert_prints expected_by(text), run_ruby(path)
    end
  end

  %w[README.md docs/COMING_FROM.md].each do |page|
    define_method("test_#{page[/\w+(?=\.)/].downcase}_runs") do
      blocks = read(page).scan(/^```ruby\n(.*?)^```/m).flatten
      refute_empty blocks
      blocks.each do |code|
        prints = code.scan(/^# => (.*\n)/).join
        assert_prints prints, run_ruby("-e", code)
      end
    end
  end

  # Each NB form of the table is in the program that runs.
  def test_coming_from_uses_each_word_that_it_names
    page = read("docs/COMING_FROM.md")
    code = page[/^```ruby\n(.*?)^```/m, 1]
    words = page.scan(/^\|.*/).join.scan(/NB(?:\.\w+|::\w+)/).uniq
    assert_operator words.size, :>, 12
    assert_empty(words.reject { |word| code.include?(word) })
  end

  # Of the other languages only the lengths: not everybody has them.
  Compare::TASKS.each_key do |task|
    define_method("test_side_by_side_#{task}") { assert_nil Compare.try("NB", task) }
  end

  def test_coming_from_tells_the_lengths_of_the_programs
    table = read("docs/COMING_FROM.md")[/^## How long it is.*?^## /m].scan(/^\|.*$/)
    languages, rows = cells(table.first), table.drop(2).map { |row| cells(row) }
    assert_equal Compare::LANGUAGES.keys, languages
    languages.each_with_index do |language, column|
      said = rows.map { |row| row[column][/\d+\z/].to_i }
      assert_equal Compare.lengths(language).values, said, language
    end
  end

  private

  def cells(row) = row.split("|").drop(2).map(&:strip)

  # Whatever the locale.
  def read(path) = File.read(File.expand_path(path, Program::ROOT), encoding: "UTF-8")

  def expected_by(text)
    text[/^# Prints:\n((?:#   .*\n)+)/, 1].gsub(/^#   /, "")
  end

  def run_ruby(*arguments)
    command = [Program::PATIENT, *Program::RUBY, "-W", "-Ilib", *arguments]
    out, errors, status = Open3.capture3(*command, chdir: Program::ROOT)
    assert_empty errors
    assert_predicate status, :success?
    out
  end

  def assert_prints(expected, actual)
    assert_equal expected.gsub(TOOK, "N"), actual.gsub(TOOK, "N")
    expected.scan(TOOK).zip(actual.scan(TOOK)) do |said, took|
      assert_operator Float(took), :>=, Float(said) - 0.051
      assert_in_time Float(took), Float(said) + SLACK, "the example's #{said} s"
    end
  end
end

# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/program"

# Every example prints what its head says, and every piece of Ruby in the README runs.
class ExamplesTest < Minitest::Test
  # Behind "took": seconds, which a busy machine makes longer, but never shorter.
  TOOK = /(?<=took )\d+\.\d+(?= s)/
  SLACK = 2.0

  Dir[File.join(Program::ROOT, "examples", "*.rb")].sort.each do |path|
    name = File.basename(path, ".rb")

    define_method("test_#{name}_prints_what_it_says") do
      text = read(path)
      assert_operator text.lines.size, :<, 40
      assert_includes text, "# Run: ruby -Ilib examples/#{name}.rb\n"
      assert_prints expected_by(text), run_ruby(path)
    end
  end

  def test_the_readme_runs
    blocks = read("README.md").scan(/^```ruby\n(.*?)^```/m).flatten
    refute_empty blocks
    blocks.each do |code|
      prints = code.scan(/^# => (.*\n)/).join
      assert_prints prints, run_ruby("-e", code)
    end
  end

  private

  # Whatever the locale.
  def read(path) = File.read(File.expand_path(path, Program::ROOT), encoding: "UTF-8")

  def expected_by(text)
    text[/^# Prints:\n((?:#   .*\n)+)/, 1].gsub(/^#   /, "")
  end

  def run_ruby(*arguments)
    out, errors, status = Open3.capture3(*Program::RUBY, "-W", "-Ilib", *arguments, chdir: Program::ROOT)
    assert_empty errors
    assert_predicate status, :success?
    out
  end

  def assert_prints(expected, actual)
    assert_equal expected.gsub(TOOK, "N"), actual.gsub(TOOK, "N")
    expected.scan(TOOK).zip(actual.scan(TOOK)) do |said, took|
      assert_includes Float(said) - 0.051..Float(said) + SLACK, Float(took)
    end
  end
end

# frozen_string_literal: true

require "minitest/autorun"
begin
  require_relative "../differential/comparison"
rescue LoadError => error
  MISSING = error.message
end

# Mutated requests before our parser, Puma's and llhttp: whatever they disagree about is a class
# that docs/PARSER.md explains. `rake fuzz:differential` does it with a million.
class DifferentialTest < Minitest::Test
  def setup
    skip "the gems puma and llhttp are not here: #{MISSING}" if defined?(MISSING)
  end

  def test_every_difference_is_explained
    run = Differential::Run.new(20_261_121).run(25_000)
    assert_empty run.examples.except(*Differential::Page.classes.keys), "not in docs/PARSER.md"
    assert_operator run.taken, :>, 5000, "too few messages that we take"
  end

  def test_what_fuzzing_has_kept
    corpus = Differential::Requests.corpus
    assert_operator corpus.size, :>, 400
    comparison = Differential::Comparison.new
    comparison.compare(corpus) do |found, pair|
      assert_includes Differential::Page.classes.keys, found, pair.bytes.inspect
    end
  ensure
    comparison&.close
  end

  def test_every_explanation_has_an_example
    explained = Differential::Page.classes
    assert_operator explained.size, :>, 30
    comparison = Differential::Comparison.new
    explained.each do |name, example|
      found = []
      comparison.compare([example]) { |class_of_it, _| found << class_of_it }
      assert_includes found, name, example.inspect
    end
  ensure
    comparison&.close
  end
end

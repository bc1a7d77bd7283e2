# frozen_string_literal: true

require_relative "rubies"
require_relative "../test/support/machine"

# One test file, or one test of it, on one or every Ruby, with the gems of the tests.
class TestCommand
  # What a line that begins a test looks like; the name is in the first group.
  WORDS = "contract|same_as_threads|script|asks|waits|blocks|fails"
  DEFINITIONS = [/^\s*def (test_\w+)/, /^\s*define_method\("(test_.+?)"\)/,
                 /^\s*(?:#{WORDS})[ (]"(.+?)"/].freeze

  # @param place [String] file or file:line
  # @param name [String, nil] as minitest's -n
  def initialize(place, seed: nil, name: nil)
    @file, line = place.split(":")
    @seed = seed
    @name = name || (line && pattern_at(Integer(line)))
  end

  # @return [Boolean]
  def run(ruby)
    puts "Ruby #{ruby.version}: #{@file} #{@name}"
    Machine.watch do
      system(ruby.environment, ruby.path, "-Ilib:test", @file, *(["--seed", @seed] if @seed),
             *(["-n", @name] if @name))
    end
  end

  private

  # The test whose definition is the last one not behind the line.
  def pattern_at(line)
    found = File.readlines(@file).first(line).reverse.filter_map do |text|
      DEFINITIONS.filter_map { |definition| text[definition, 1] }.first
    end.first
    found or abort "bin/test: there is no test at line #{line} of #{@file}"
    forms = [found, found.gsub(/\W+/, "_")].map do |name|
      name.split(/\#{.*?}/, -1).map { |part| Regexp.escape(part) }.join(".*")
    end
    "/#{forms.uniq.join("|")}/"
  end
end

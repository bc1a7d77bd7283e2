# frozen_string_literal: true

module Others
  # The checked-in list: per line a suite, the Rubies or `all`, a test, and why it differs.
  #
  #   ruby-fiber 3.1 TestFiber#test_it: it asks for what a loop must not do
  class Reasons
    FILE = File.expand_path("differences.txt", __dir__)
    LINE = /\A(?<suite>\S+) (?<rubies>\S+) (?<test>[^:]+(?:::[^:]+)*): (?<reason>\S.*)\z/.freeze

    def initialize(text = File.read(FILE))
      lines = text.lines(chomp: true).reject { |line| line.empty? || line.start_with?("#") }
      @entries = lines.map { |line| LINE.match(line) || raise(ArgumentError, "unclear: #{line}") }
    end

    # @return [Hash{String => String}] test to reason
    def of(suite, api)
      mine = @entries.select do |entry|
        rubies = entry[:rubies].split(",")
        entry[:suite] == suite && (rubies == ["all"] || rubies.include?(api))
      end
      mine.to_h { |entry| [entry[:test], entry[:reason]] }
    end
  end
end

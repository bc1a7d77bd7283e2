# frozen_string_literal: true

require_relative "comparison"
require_relative "page"
require_relative "reasons"
require_relative "source"
require_relative "suite"
require_relative "surroundings"
require_relative "trial"

module Others
  # What `rake others` does, on the Ruby that runs it.
  class Command
    API = RUBY_VERSION[/\A\d+\.\d+/]

    # @param names [Array<String>] of suites; none: all
    def initialize(names)
      suites = Others.suites(API)
      abort "rake others: no pinned sources for Ruby #{API}" if suites.empty?
      unknown = names - suites.map(&:name)
      known = suites.map(&:name).join(", ")
      abort "rake others: no suite #{unknown.join(", ")}; there are #{known}" if unknown.any?

      @suites = names.empty? ? suites : suites.select { |suite| names.include?(suite.name) }
    end

    # @return [Boolean] whether each difference has a reason, and each reason a difference
    def run
      source = Source.new
      @suites.map { |suite| one(suite, source) }.all?
    ensure
      Surroundings.clear
    end

    private

    def one(suite, source)
      folder = source.fetch(suite.source, suite.version)
      plain = Trial.new(suite, folder, inside: false).run
      hung = plain.select { |_, words| words.first == "hung" }
      inside = Trial.new(suite, folder, inside: true, lost: hung).run
      comparison = Comparison.new(plain, inside, Reasons.new.of(suite.name, API))
      page = Page.new # read now: another run may have written meanwhile
      page.add(suite, comparison, RUBY_VERSION)
      page.write
      tell(suite, comparison)
      comparison.green?
    end

    def tell(suite, comparison)
      puts "#{suite.name} on Ruby #{RUBY_VERSION}: #{comparison.tests} tests, " \
           "#{comparison.plain_failures} fail plain, #{comparison.inside_failures} inside, " \
           "#{comparison.differences.size} differences"
      puts(comparison.complaints.map { |line| "  #{line}" })
    end
  end
end

# frozen_string_literal: true

require_relative "rubies"
require_relative "test_files"

# One test file, or one test of it, on one or every Ruby, with the gems of the tests.
class TestCommand
  # The lines that begin a test; the first group is the name.
  WORDS = "contract|same_as_threads|script|asks|waits|blocks|fails"
  DEFINITIONS = [/^\s*def (test_\w+)/, /^\s*define_method\("(test_.+?)"\)/,
                 /^\s*(?:#{WORDS})[ (]"(.+?)"/].freeze

  # @param place [String] file or file:line
  # @param name [String, nil] for minitest's -n
  def initialize(place, seed: nil, name: nil)
    @file, line = place.split(":")
    @seed = seed
    @name = name || (line && pattern_at(line))
  end

  # @return [Boolean, nil] whether all passed; nil: there was no test to run
  def run(ruby)
    puts "Ruby #{ruby.version}: #{@file} #{@name}"
    Machine.watch do
      process, current = TestFiles.start([@file, *arguments], environment: ruby.environment,
                                                            ruby: ruby.path, in: $stdin)
      status = status_of(process, current)
      conclude(status, TestFiles.last_test(current))
    end
  end

  private

  def arguments = [*(["--seed", @seed] if @seed), *(["-n", @name] if @name)]

  # Ctrl-C also says which test was running.
  # @return [Process::Status, nil] nil: it hung, and was killed
  def status_of(process, current)
    trap("INT") do
      $stdout.syswrite("\n#{TestFiles.interrupted(current.read)}")
      exit 130
    end
    TestFiles.status_of(process, current)
  ensure
    process.terminate
    trap("INT", "DEFAULT")
  end

  def conclude(status, last)
    return nil if last == "." # minitest has said so
    return status.success? if status&.exited? && TestFiles.ended?(last)

    print TestFiles.interrupted(last), TestFiles.fate(@file, "", status)
    false
  end

  # The last test that begins at or before the line.
  def pattern_at(line)
    line.match?(/\A[1-9]\d*\z/) or abort "bin/test: #{line} is not a line number"
    found = File.readlines(@file).first(Integer(line)).reverse.filter_map do |text|
      DEFINITIONS.filter_map { |definition| text[definition, 1] }.first
    end.first
    found or abort "bin/test: no test begins at or before line #{line} of #{@file}"
    forms = [found, found.gsub(/\W+/, "_")].map do |name|
      name.split(/\#{.*?}/, -1).map { |part| Regexp.escape(part) }.join(".*")
    end
    "/#{forms.uniq.join("|")}/"
  end
end

# frozen_string_literal: true

require_relative "test_files"

# Reads the output of a suite: how many tests passed, which failed and how to repeat them, which had
# to be repeated, and why others were skipped.
class SuiteResult
  MINITEST = /^(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips/
  OURS = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/
  # A soak's activities. A soak is one test; if it fails, its exit status says so.
  ACTIVITIES = /^(\d+) activities, \d+ failed$/
  REPEATED = /repeated after a timing failure: (.*)$/
  # Of so many tests, one more or less may be repeated; in a larger share, no machine is at fault.
  FEW, SHARE = 5, 0.02
  SKIPPED = /^skipped: [\w:]+#.+?: (.*)$/
  HEAD = /^(?: +\d+\) )?(?:Failure|Error):\n/.freeze # Rails leaves the number out
  FAILED = /#{HEAD}([\w:]+)#(test_.+?)(?: \[[^\n]*\])?:\n/
  BROKEN = /^#{Regexp.escape(TestFiles::BROKEN)}(\S+): (.*)$/.freeze
  # The test during which a process broke off.
  RUNNING = /^([\w:]+)#(test_.+) was running\.$/
  # What minitest prints for one failed test.
  REPORT = /#{HEAD}.*?(?=#{HEAD}|^\d+ runs, |\z)/m.freeze
  # Lines of a report that are shown.
  LINES = 25
  # One or more tests of a file that failed in the same run.
  Failure = Struct.new(:ruby, :file, :names, :seed, :why) do
    # @return [Array<String>] the arguments of `bin/test` that run them again
    def arguments
      pattern = "/\\A(#{names.map { |name| Regexp.escape(name) }.join("|")})\\z/"
      [file, *(["-n", pattern] if names.any?), *(["--seed", seed] if seed), "--ruby", ruby]
    end

    def to_s
      words = arguments.map { |word| word.match?(%r{[^\w./-]}) ? "'#{word}'" : word }
      "bin/test #{words.join(" ")}#{"  # #{why}" if why}"
    end
  end

  attr_reader :passed, :failed, :skipped, :activities, :repeated, :reasons, :failures

  # @param output [String]
  # @param status [Process::Status, nil] nil: it hung
  # @param api [String] of the Ruby, such as "3.4"
  def initialize(output, status, api)
    @output = output
    @api = api
    @passed, @failed, @skipped = SuiteResult.count(output)
    @activities = output.scan(ACTIVITIES).flatten.sum(&:to_i)
    @repeated = output.scan(REPEATED).flatten
    @reasons = output.scan(SKIPPED).flatten
    @failures = find_failures
    @passed = 1 if [@passed, @failed, @skipped].sum.zero? && status&.success?
    @failed = 1 if @failed.zero? && (!status&.success? || often?)
  end

  # @return [Boolean] whether so many tests were repeated that it counts as a failure
  def often? = @repeated.size > [FEW, (@passed + @failed) * SHARE].max

  # Adds up what minitest ("9 runs, 34 assertions, 0 failures, 1 errors, 0 skips") and the C tests
  # ("12 passed, 0 failed") say. A suite that says nothing is one test: it passed, or it did not.
  #
  # @return [Array<Integer>] passed, failed, skipped
  def self.count(output)
    found = output.scan(MINITEST).map do |numbers|
      runs, failures, errors, skips = numbers.map(&:to_i)
      [runs - failures - errors - skips, failures + errors, skips]
    end
    found += output.scan(OURS).map { |numbers| numbers.map(&:to_i) }
    sums = found.transpose.map(&:sum)
    [sums[0] || 0, (sums[1] || 0) + output.scan(BROKEN).size, sums[2] || 0]
  end

  # @return [Array<String>] the first lines of each failure, as minitest prints them
  def reports
    @output.scan(REPORT).map { |report| report.lines.first(LINES).join.strip }
  end

  private

  def find_failures
    @output.split(/^(?=#{TestFiles::HEADER})/).flat_map do |section|
      seed = section[/--seed (\d+)/, 1]
      own = section[/\A== (\S+\.rb)/, 1]
      found = section.scan(FAILED).group_by { |name,| own || file_of(name) }
      broken(section, seed) +
        found.map { |file, tests| Failure.new(@api, file, tests.map(&:last), seed) }
    end
  end

  # @return [Array<Failure>] of the test that was running, if it is known
  def broken(section, seed)
    name, test = section.match(RUNNING)&.captures
    section.scan(BROKEN).map do |file, why|
      file = file_of(name) if name && file == TestFiles::TOGETHER
      Failure.new(@api, file, [*test], test && seed, why)
    end
  end

  def file_of(class_name)
    pattern = /^ *class #{class_name[/\w+\z/]}\b/
    Dir["test/**/*_test.rb"].find { |file| File.read(file).match?(pattern) } || class_name
  end
end

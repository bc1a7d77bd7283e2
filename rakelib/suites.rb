# frozen_string_literal: true

require_relative "rubies"

# Runs every suite in a process of its own, on every Ruby, and counts.
class Suites
  # What a suite is called, the rake task behind it, which Rubies run it, and after how many
  # seconds it counts as hanging.
  Suite = Struct.new(:name, :task, :rubies, :limit)
  SUITES = [
    Suite.new("lint", "lint", :first, 300),
    Suite.new("docs", "docs", :first, 300),
    Suite.new("c", "test:c", :first, 600),
    Suite.new("unit", "test:unit", :each, 1200),
    Suite.new("server", "test:server", :each, 1200),
    Suite.new("contract", "test:contract", :each, 1800),
    Suite.new("drivers", "test:drivers", :each, 600),
    Suite.new("legacy", "test:legacy", :each, 600),
    Suite.new("rails", "test:rails", :each, 600),
    Suite.new("examples", "test:examples", :each, 600),
    Suite.new("soak", "soak[60]", :each, 300)
  ].freeze
  Count = Struct.new(:passed, :failed, :skipped)
  MINITEST = /^(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips/
  OURS = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/

  def initialize(names, rubies: Rubies.all)
    unknown = names - SUITES.map(&:name)
    if unknown.any?
      abort "bin/test: no suite #{unknown.join(", ")}; there are #{SUITES.map(&:name).join(", ")}"
    end

    @suites = SUITES.select { |suite| names.empty? || names.include?(suite.name) }
    @rubies = rubies
    @total = Count.new(0, 0, 0)
  end

  # @return [Boolean] whether all passed
  def run
    puts "Rubies: #{@rubies.map(&:version).join(", ")}"
    @suites.each do |suite|
      (suite.rubies == :each ? @rubies : @rubies.first(1)).each { |ruby| run_one(suite, ruby) }
    end
    puts words(@total)
    @total.failed.zero?
  end

  private

  def run_one(suite, ruby)
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    log = "tmp/log/#{suite.name}-#{ruby.api}.log"
    status = execute(suite, ruby, log)
    output = File.read(log).scrub
    count = count(output, status)
    took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
    puts format("%-9s %-6s %s (%.0f s)", suite.name, ruby.version, words(count), took)
    puts "(still running after #{suite.limit} s)" unless status
    puts explain(output, log) if count.failed.positive?
    $stdout.flush
    add(@total, count.to_a)
  end

  # In a process group of its own, which is ended as a whole when it hangs.
  def execute(suite, ruby, log)
    FileUtils.mkdir_p(File.dirname(log))
    pid = Process.spawn(ruby.environment, *ruby.rake, suite.task,
                        in: File::NULL, out: log, err: %i[child out], pgroup: true)
    ended = Process.detach(pid)
    return ended.value if ended.join(suite.limit)

    Process.kill(:QUIT, -pid)
    ended.join(2)
    Process.kill(:KILL, -pid)
    nil
  end

  # Adds up what minitest ("9 runs, 34 assertions, 0 failures, 1 errors, 0 skips") and the C tests
  # ("12 passed, 0 failed") say. A suite that says nothing is one test: it passed, or it did not.
  def count(output, status)
    count = Count.new(0, 0, 0)
    output.scan(MINITEST) do |numbers|
      runs, failures, errors, skips = numbers.map(&:to_i)
      add(count, [runs - failures - errors - skips, failures + errors, skips])
    end
    output.scan(OURS) { |numbers| add(count, numbers.map(&:to_i)) }
    count.passed = 1 if count.to_a.sum.zero? && status&.success?
    count.failed = 1 if count.failed.zero? && !status&.success?
    count
  end

  def add(count, numbers)
    Count.members.zip(numbers) { |kind, number| count[kind] += number }
  end

  def words(count)
    text = "#{count.passed} passed, #{count.failed} failed"
    count.skipped.zero? ? text : "#{text}, #{count.skipped} skipped"
  end

  def explain(output, log)
    "#{output.lines.last(60).map { |line| "    #{line}" }.join}    -- the whole of it: #{log}"
  end
end

Dir.chdir(File.expand_path("..", __dir__))
exit Suites.new(ARGV).run

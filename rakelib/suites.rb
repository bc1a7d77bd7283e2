# frozen_string_literal: true

require "fileutils"
require "json"
require "optparse"
require_relative "../lib/neverblock/cli/terminal"
require_relative "supervised_process"
require_relative "rubies"
require_relative "suite_result"
require_relative "progress"
require_relative "test_command"

# Runs every suite in a process of its own on every Ruby, and counts the tests.
class Suites
  # The name of a suite, its rake task, the Rubies that run it, and after how many seconds it counts
  # as hanging: many times what it takes, because the machine may do other work. A single test that
  # hangs is found sooner (TestFiles::LIMIT).
  Suite = Struct.new(:name, :task, :rubies, :limit)
  SUITES = [
    Suite.new("lint", "lint", :first, 1200),
    Suite.new("docs", "docs", :first, 1200),
    Suite.new("c", "c", :first, 2400),
    Suite.new("unit", "test:unit", :each, 4800),
    Suite.new("server", "test:server", :each, 4800),
    Suite.new("contract", "test:contract", :each, 7200),
    Suite.new("drivers", "test:drivers", :each, 3600),
    Suite.new("legacy", "test:legacy", :each, 2400),
    Suite.new("rails", "test:rails", :each, 3600),
    Suite.new("jobs", "test:jobs", :each, 4800),
    Suite.new("examples", "test:examples", :each, 2400),
    Suite.new("chaos", "chaos:short", :each, 2400),
    Suite.new("gc", "gc:short", :each, 2400),
    Suite.new("asan", "asan:short", :each, 2400),
    Suite.new("portable", "portable:short", :each, 2400),
    Suite.new("soak", "soak[60]", :each, 1200)
  ].freeze
  # Run by name only, such as `bin/test chaos`, until each has passed ten times in a row on both
  # Rubies.
  BY_NAME = %w[chaos gc asan].freeze
  # What failed in the last run, for --failed.
  FAILED = "tmp/failed.json"

  def initialize(names, rubies: Rubies.all)
    unknown = names - SUITES.map(&:name)
    if unknown.any?
      abort "bin/test: no suite #{unknown.join(", ")}; there are #{SUITES.map(&:name).join(", ")}"
    end

    names = SUITES.map(&:name) - BY_NAME if names.empty?
    @suites = SUITES.select { |suite| names.include?(suite.name) }
    @rubies = rubies
    @results = []
  end

  # @return [Boolean] whether all passed
  def run
    start = now
    puts "Rubies: #{@rubies.map(&:version).join(", ")}"
    @suites.each do |suite|
      (suite.rubies == :each ? @rubies : @rubies.first(1)).each { |ruby| run_one(suite, ruby) }
    end
    conclude(now - start)
    @results.sum(&:failed).zero?
  end

  private

  def run_one(suite, ruby)
    start = now
    log = "tmp/log/#{suite.name}-#{ruby.api}.log"
    status = execute(suite, ruby, log)
    output = File.read(log).scrub
    @results << result = SuiteResult.new(output, status, ruby.api)
    line = format("%-9s %-6s %s (%.0f s)", suite.name, ruby.version, words([result]), now - start)
    puts result.failed.zero? || !NB::CLI::Terminal.colors?($stdout) ? line : "\e[31m#{line}\e[0m"
    puts "(still running after #{suite.limit} s)" unless status
    puts "(#{result.repeated.size} repeated: too many to be the machine's fault)" if result.often?
    puts explain(result, output, log) if result.failed.positive?
    $stdout.flush
  end

  # Runs in a process group of its own.
  # @return [Process::Status, nil] nil: it hung, and was ended with all that it had started
  def execute(suite, ruby, log)
    FileUtils.mkdir_p(File.dirname(log))
    process = SupervisedProcess.start(ruby.environment, *ruby.rake, suite.task,
                                      in: File::NULL, out: log, err: %i[child out], pgroup: true)
    status = wait(process, suite, Progress.new("#{suite.name} #{ruby.version}", log))
    return status if status

    Process.kill(:QUIT, -process.pid)
    process.wait(2)
    nil
  ensure
    process&.terminate
  end

  # @return [Process::Status, nil] nil: it has not ended within its limit
  def wait(process, suite, progress)
    give_up = now + suite.limit
    progress.show until process.wait(Progress::SECONDS) || now > give_up
    process.wait(0)
  ensure
    progress.clear
  end

  def conclude(took)
    puts format("%s (%.0f s)", words(@results), took)
    repeated = @results.flat_map(&:repeated)
    puts "#{repeated.size} repeated after a timing failure:", repeated.map { |line| "  #{line}" } if
      repeated.any?
    tell_skips
    failures = @results.flat_map(&:failures)
    File.write(FAILED, JSON.generate(failures.map(&:arguments)))
    return if failures.empty?

    puts "To repeat what failed (all of it: bin/test --failed):", failures.map { |one| "  #{one}" }
  end

  def tell_skips
    reasons = @results.flat_map(&:reasons).tally.sort_by { |reason, count| [-count, reason] }
    return if reasons.empty?

    puts "Why tests were skipped:"
    reasons.each { |reason, count| puts format("  %5d %s", count, reason) }
  end

  def words(results)
    passed, failed, skipped = %i[passed failed skipped].map { |kind| results.sum(&kind) }
    repeated = results.sum { |result| result.repeated.size }
    text = "#{passed} passed, #{failed} failed"
    text += ", #{skipped} skipped" unless skipped.zero?
    text += ", #{repeated} repeated" unless repeated.zero?
    activities = results.sum(&:activities)
    activities.zero? ? text : "#{text}; #{activities} activities of soaks"
  end

  # The failures, or the end of the output if no failure was printed.
  def explain(result, output, log)
    shown = result.reports.any? ? result.reports.join("\n\n").lines : output.lines.last(60)
    "#{shown.map { |line| "    #{line}" }.join}\n    -- the whole of it: #{log}"
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# The parsed command line of bin/test.
class TestRequest
  USAGE = <<~TEXT.freeze
    usage: bin/test [SUITE ...] [--ruby 3.4]
           bin/test FILE[:LINE] [-n NAME] [--seed N] [--ruby 3.4]
           bin/test --failed     what failed in the last run of suites
    suites: #{Suites::SUITES.map(&:name).join(" ")}
            (without a name all of them run, except #{Suites::BY_NAME.join(", ")})
    NB_BUSY=2: runs that many busy loops beside the tests
  TEXT

  def initialize(arguments)
    @options = {}
    @words = OptionParser.new(USAGE) do |on|
      on.on("--seed N", /\A\d+\z/) { |seed| @options[:seed] = seed }
      on.on("-n", "--name NAME") { |name| @options[:name] = name }
      on.on("--ruby VERSION") { |version| @ruby = version }
      on.on("--failed") { @failed = true }
    end.parse(arguments)
  rescue OptionParser::ParseError => error
    abort "bin/test: #{error.message}\n#{USAGE}"
  end

  # @return [Boolean]
  def run
    return run_failed if @failed

    files, names = @words.partition { |word| word.match?(/\.rb(:|\z)/) }
    return run_suites(names) if files.empty?

    abort "bin/test: name suites or files, not both: #{@words.join(" ")}" if names.any?
    run_files(files)
  end

  private

  def run_suites(names)
    @options.empty? or abort "bin/test: --#{@options.keys.first} goes with a test file"
    Suites.new(names, rubies: rubies).run
  end

  # A test may exist for one Ruby only, so it is enough if it ran on one of them.
  def run_files(files)
    files.map { |file|
      File.file?(file[/\A.+?\.rb/]) or abort "bin/test: there is no file #{file[/\A.+?\.rb/]}"
      results = rubies.map { |ruby| TestCommand.new(file, **@options).run(ruby) }
      results.any? && !results.include?(false)
    }.all?
  end

  def rubies
    found = Rubies.all.select { |ruby| @ruby.nil? || ruby.version.start_with?(@ruby) }
    return found if found.any?

    abort "bin/test: there is no Ruby #{@ruby}; there are #{Rubies.all.map(&:version).join(", ")}"
  end

  def run_failed
    commands = File.file?(Suites::FAILED) ? JSON.parse(File.read(Suites::FAILED)) : []
    puts "Nothing failed in the last run of suites." if commands.empty?
    commands.map { |arguments| TestRequest.new(arguments).run }.all?
  end
end

# Programs beside the tests that do nothing but compute, and end with their starter.
module BusyLoops
  PROGRAM = "parent = Process.ppid; 1_000_000.times { nil } while Process.ppid == parent"

  def self.start(count)
    pids = Array.new(count) { Process.spawn(RbConfig.ruby, "--disable-gems", "-e", PROGRAM) }
    at_exit do
      pids.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
    end
  end
end

if $PROGRAM_NAME == __FILE__
  Dir.chdir(File.expand_path("..", __dir__))
  trap("INT", "DEFAULT") # what a script starts with `&` ignores it, and so would all that we start
  busy = ENV.fetch("NB_BUSY", "0")
  busy.match?(/\A\d+\z/) or abort "NB_BUSY: must be a number of busy loops, got: #{busy}"
  BusyLoops.start(Integer(busy, 10))
  exit TestRequest.new(ARGV).run
end

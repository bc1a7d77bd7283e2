# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"
require "optparse"
require_relative "../lib/neverblock/cli/terminal"
require_relative "rubies"
require_relative "progress"
require_relative "suite_run"
require_relative "test_command"

# Runs every suite in a process of its own on every Ruby, the Rubies side by side, and counts the
# tests.
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

  # @param jobs [Integer] how many Rubies run at a time
  def initialize(names, rubies: Rubies.all, jobs: 1)
    unknown = names - SUITES.map(&:name)
    if unknown.any?
      abort "bin/test: no suite #{unknown.join(", ")}; there are #{SUITES.map(&:name).join(", ")}"
    end

    names = SUITES.map(&:name) - BY_NAME if names.empty?
    @suites = SUITES.select { |suite| names.include?(suite.name) }
    @rubies = rubies
    @jobs = jobs
    @results = []
  end

  # @return [Boolean] whether all passed
  def run
    start = now
    puts "Rubies: #{@rubies.map(&:version).join(", ")}"
    lanes = plan
    FileUtils.mkdir_p("tmp/log")
    drive(lanes) { |running| follow(in_order(lanes), running) }
    conclude(now - start)
    @results.sum(&:failed).zero?
  end

  private

  # A lane is what runs one after the other. Rubies of the same version share a build, gems and
  # logs, and therefore a lane. Every other lane begins at the end, so that different suites meet:
  # while one waits, another computes.
  # @return [Array<Array<SuiteRun>>]
  def plan
    apis = @rubies.map(&:api).uniq
    lanes = @rubies.group_by { |ruby| apis.index(ruby.api) % @jobs }.values
    lanes.each_with_index.map do |rubies, place|
      lane = @suites.flat_map do |suite|
        chosen = suite.rubies == :each ? rubies : rubies & @rubies.first(1)
        chosen.map { |ruby| SuiteRun.new(suite, ruby) }
      end
      place.odd? ? lane.reverse : lane
    end
  end

  # The first of each lane, the second of each, and so on: no line has to wait for long.
  def in_order(lanes)
    Array.new(lanes.map(&:size).max) { |place| lanes.filter_map { |lane| lane[place] } }.flatten
  end

  # However the block ends, what still runs is ended.
  # @yieldparam running [Array<Thread>]
  def drive(lanes)
    running = lanes.map do |lane|
      Thread.new { lane.each(&:run) }.tap { |thread| thread.report_on_exception = false }
    end
    yield running
  ensure
    running.each(&:kill).select(&:alive?).each(&:join) # one that has failed would raise again
  end

  # Prints the line of each run once it and all before it have ended; when interrupted, of all
  # that have ended.
  def follow(runs, running)
    progress = Progress.new
    until runs.empty?
      progress.show(runs.select(&:running?))
      running.each { |thread| thread.join(Progress::SECONDS / running.size) }
      progress.clear if runs.first.result
      tell(runs.shift) while runs.first&.result
    end
  ensure
    progress.clear
    runs.select(&:result).each { |run| tell(run) }
  end

  def tell(run)
    @results << result = run.result
    line = format("%-9s %-6s %s (%.0f s)", *run.name.split, words([result]), run.took)
    puts result.failed.zero? || !NB::CLI::Terminal.colors?($stdout) ? line : "\e[31m#{line}\e[0m"
    puts "(still running after #{run.limit} s)" if run.hung?
    puts "(#{result.repeated.size} repeated: too many to be the machine's fault)" if result.often?
    puts run.explanation if result.failed.positive?
    $stdout.flush
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

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# The parsed command line of bin/test.
class TestRequest
  USAGE = <<~TEXT.freeze
    usage: bin/test [SUITE ...] [--ruby 3.4] [--jobs 1]
           bin/test FILE[:LINE] [-n NAME] [--seed N] [--ruby 3.4]
           bin/test --failed     what failed in the last run of suites
    suites: #{Suites::SUITES.map(&:name).join(" ")}
            (without a name all of them run, except #{Suites::BY_NAME.join(", ")})
    --jobs N, NB_JOBS=N: runs suites on so many Rubies at a time; otherwise, on one for each CPU
    NB_BUSY=2: runs that many busy loops beside the tests
  TEXT

  def initialize(arguments)
    @options = {}
    @words = OptionParser.new(USAGE) do |on|
      on.on("--seed N", /\A\d+\z/) { |seed| @options[:seed] = seed }
      on.on("-n", "--name NAME") { |name| @options[:name] = name }
      on.on("--ruby VERSION") { |version| @ruby = version }
      on.on("--failed") { @failed = true }
      on.on("--jobs N") { |jobs| @jobs = positive("--jobs", jobs) }
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
    abort "bin/test: --jobs goes with suites" if @jobs
    run_files(files)
  end

  private

  def run_suites(names)
    @options.empty? or abort "bin/test: --#{@options.keys.first} goes with a test file"
    @jobs ||= positive("NB_JOBS", ENV.fetch("NB_JOBS") { Etc.nprocessors.to_s })
    Suites.new(names, rubies: rubies, jobs: @jobs).run
  end

  def positive(name, word)
    word.match?(/\A[1-9]\d*\z/) or abort "bin/test: #{name} must be a number from 1, got: #{word}"
    Integer(word)
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
    abort "bin/test: --jobs goes with suites" if @jobs
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

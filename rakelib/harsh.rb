# frozen_string_literal: true

# Test files under conditions that make everything slow and mistakes plain (rake gc, rake asan), in
# a process each, with their figures. What fails is named at the end. The long forms, which run
# whole suites, try it once more first, and say so.
class Harsh
  LIMIT = 900 # seconds for a file

  # @param name [String] stands before each line
  # @param environment [Hash{String => String}]
  # @param reports [String] where each process leaves a file (this, a dot, and its pid) when it
  #   finds something; one that says ERROR fails the test, whatever the test itself says
  def initialize(name, environment, reports: nil)
    @name = name
    @reports = reports
    @environment = {"NB_PATIENCE" => "10", **environment}
  end

  # @param files [Array<String>]
  # @param tries [Integer] how often a file may be run until it passes
  # @param at_once [Integer] how many run beside each other
  # @return [void]
  def run(files, tries: 2, at_once: 1)
    abort "#{@name}: no such test" if files.empty?
    File.delete(*Dir["#{@reports}.*"]) if @reports
    left = Thread::Queue.new(files).close
    failed = Array.new(at_once) { Thread.new { all_of(left, tries) } }.flat_map(&:value)
    abort "#{@name}: failed: #{failed.join(", ")}" if failed.any?
  end

  private

  # @return [Array<String>] those that failed
  def all_of(left, tries)
    failed = []
    while (file = left.pop)
      failed << file unless (1..tries).any? { |attempt| try(file, attempt, attempt == tries) }
    end
    failed
  end

  def try(file, attempt, last)
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    output, passed = execute(file)
    took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
    told = passed ? output[/^\d+ runs, .*/] : failures(output, last)
    $stdout.write("== #{file} (#{took.round} s, #{@name}#{", tried again" if attempt > 1})\n",
                  told, "\n")
    $stdout.flush
    passed
  end

  def execute(file)
    command = ["timeout", LIMIT.to_s, RbConfig.ruby, "-Ilib", "-Itest", file]
    output = IO.popen([@environment, *command, {err: %i[child out]}], &:read).scrub
    passed = $?.success? # rubocop:disable Style/SpecialGlobalVars
    found = reported
    found.empty? ? [output, passed] : [found + output, false]
  end

  # Of any process: with two files at once the first that looks is told. Most files only say that
  # ASan does not know the stacks of fibers.
  def reported
    return "" unless @reports

    Dir["#{@reports}.*"].sum("") do |file|
      text = File.read(file)
      next "" unless text.match?(/ERROR: |runtime error: /)

      File.rename(file, "#{@reports}-found#{File.extname(file)}")
      text
    rescue Errno::ENOENT
      "" # the other has taken it
    end
  end

  # Those of minitest, or what a program said that broke off. A figure of minitest's counts.
  def failures(output, counts)
    found = output.scan(/^  +\d+\) .+\n.+\n.+/)
    text = found.empty? ? broken(output) : [*found, output[/^\d+ runs, .*/]].join("\n")
    counts ? text : text.gsub(/^(\d+) runs/, '(\1 runs)')
  end

  # Of a crash what Ruby tells first.
  def broken(output)
    crash = output.index("[BUG]")
    (crash ? output[crash..].lines.first(120) : output.lines.last(40)).join
  end
end

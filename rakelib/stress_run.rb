# frozen_string_literal: true

require_relative "test_files"

# Runs test files under conditions that slow everything down and expose mistakes (rake gc, rake
# asan), each in its own process. Every file runs once: a crash, a hang or a leak that comes only
# now and then is what these runs are for.
class StressRun
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
  # @param at_once [Integer] how many files run at a time
  # @return [void]
  def run(files, at_once: 1)
    abort "#{@name}: no such test" if files.empty?
    File.delete(*Dir["#{@reports}.*"]) if @reports
    failed = TestFiles.failed_of(files, at_once) { |file| passes?(file) }
    abort "#{@name}: failed: #{failed.join(", ")}" if failed.any?
  end

  private

  def passes?(file)
    start = TestFiles.now
    output, status = TestFiles.output_of(file, @environment)
    found = reported
    fate = TestFiles.fate(file, output, status)
    fate = "#{TestFiles::BROKEN}#{file}: a sanitizer's report\n" unless found.empty?
    passed = found.empty? && fate.empty? && status&.success?
    told = passed ? figures(output) : found + failures(output)
    $stdout.write("== #{file} (#{(TestFiles.now - start).round} s, #{@name})\n", told, "\n", fate)
    $stdout.flush
    passed
  end

  # What sanitizers report about any process: when two files run at once, the report counts against
  # the file that looks first. Most reports only say that ASan does not know the stacks of fibers.
  def reported
    return "" unless @reports

    Dir["#{@reports}.*"].sum("") do |file|
      text = File.read(file)
      next "" unless text.match?(/ERROR: |runtime error: /)

      File.rename(file, "#{@reports}-found#{File.extname(file)}")
      text
    rescue Errno::ENOENT
      "" # the other file's thread has taken it
    end
  end

  # What `bin/test` counts: minitest's summary, and the tests repeated after a timing failure.
  def figures(output)
    output.scan(/^.*repeated after a timing failure: .*|^\d+ runs, .*/).join("\n")
  end

  # Minitest's failures, or the last words of a program that broke off.
  def failures(output)
    found = output.scan(/^  +\d+\) .+\n.+\n.+/)
    found.empty? ? broken(output) : [output[/^Run options: .*/], *found, figures(output)].join("\n")
  end

  # The start of Ruby's crash report, or the end of the output.
  def broken(output)
    crash = output.index("[BUG]")
    (crash ? output[crash..].lines.first(120) : output.lines.last(40)).join
  end
end

# frozen_string_literal: true

require "io/console"
require_relative "../lib/neverblock/cli/terminal"
require_relative "suite_result"

# The last line of a terminal while suites run: how many tests have passed so far, the time, and,
# of one alone, the file that ended last. Prints nothing if the output is not a terminal.
#
#   progress = Progress.new
#   progress.show([run]) until ended.join(Progress::SECONDS)
#   progress.clear
class Progress
  # Seconds between two looks into the logs.
  SECONDS = 0.5
  FILE = /^== (\S+)/.freeze
  CLEAR = "\r\e[K"
  private_constant :FILE, :CLEAR

  # @param out [IO]
  def initialize(out: $stdout)
    @out = out
    @shown = NB::CLI::Terminal.live?(out)
  end

  # Rewrites the line.
  # @param runs [Array<SuiteRun>] those that run
  def show(runs)
    return unless @shown

    line = runs.size == 1 ? alone(runs.first) : runs.map { |run| beside_others(run) }.join(" | ")
    @out.write(CLEAR, line[0, columns - 1])
    @out.flush
  end

  # Removes the line.
  def clear = @shown && @out.write(CLEAR)

  private

  def alone(run)
    output = output_of(run)
    passed, failed = SuiteResult.count(output)
    format("%-16<name>s %<passed>d passed, %<failed>d failed (%<seconds>d s)  %<file>s",
           name: run.name, passed: passed, failed: failed, seconds: run.seconds,
           file: output.scan(FILE).last&.first)
  end

  def beside_others(run)
    passed, failed = SuiteResult.count(output_of(run))
    failures = ", #{failed} failed" if failed.positive?
    "#{run.name}: #{passed} passed#{failures} (#{run.seconds.to_i} s)"
  end

  def output_of(run) = File.exist?(run.log) ? File.read(run.log).scrub : ""

  # A terminal of unknown size reports 0.
  def columns = @out.winsize.last.nonzero? || 80
end

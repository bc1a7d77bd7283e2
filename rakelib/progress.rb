# frozen_string_literal: true

require "io/console"
require_relative "../lib/neverblock/cli/terminal"
require_relative "suite_result"

# The last line of a terminal while a suite runs: how many tests have passed so far, the time, and
# the file that ended last. Prints nothing if the output is not a terminal.
#
#   progress = Progress.new("unit", log)
#   progress.show until ended.join(Progress::SECONDS)
#   progress.clear
class Progress
  # Seconds between two looks into the log.
  SECONDS = 0.5
  FILE = /^== (\S+)/.freeze
  CLEAR = "\r\e[K"
  private_constant :FILE, :CLEAR

  # @param name [String] of what runs
  # @param log [String] the path of its output
  # @param out [IO]
  def initialize(name, log, out: $stdout)
    @name = name
    @log = log
    @out = out
    @shown = NB::CLI::Terminal.live?(out)
    @start = now
  end

  # Rewrites the line.
  def show
    return unless @shown

    output = File.exist?(@log) ? File.read(@log).scrub : ""
    passed, failed = SuiteResult.count(output)
    line = format("%-16<name>s %<passed>d passed, %<failed>d failed (%<seconds>d s)  %<file>s",
                  name: @name, passed: passed, failed: failed, seconds: now - @start,
                  file: output.scan(FILE).last&.first)
    @out.write(CLEAR, line[0, columns - 1])
    @out.flush
  end

  # Removes the line.
  def clear = @shown && @out.write(CLEAR)

  private

  # A terminal of unknown size reports 0.
  def columns = @out.winsize.last.nonzero? || 80
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

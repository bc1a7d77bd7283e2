# frozen_string_literal: true

require_relative "supervised_process"
require_relative "suite_result"

# A suite on a Ruby: a process group of its own, and a log.
class SuiteRun
  # @return [SuiteResult, nil] nil: it has not ended
  attr_reader :result
  # @return [Float] seconds
  attr_reader :took
  # @return [String] the path of what it prints
  attr_reader :log

  # @param suite [Suites::Suite]
  # @param ruby [Rubies::Found]
  def initialize(suite, ruby)
    @suite = suite
    @ruby = ruby
    @log = "tmp/log/#{suite.name}-#{ruby.api}.log"
  end

  def name = "#{@suite.name} #{@ruby.version}"
  def limit = @suite.limit
  def running? = @start && !@result
  def hung? = @result && !@status
  def seconds = now - @start

  # Returns when it has ended, or with all that it has started when the thread is killed.
  def run
    @start = now
    @status = execute
    @output = File.read(@log).scrub
    @took = seconds
    @result = SuiteResult.new(@output, @status, @ruby.api)
  end

  # The failures, or the end of the output if no failure was printed.
  def explanation
    shown = @result.reports.any? ? @result.reports.join("\n\n").lines : @output.lines.last(60)
    "#{shown.map { |line| "    #{line}" }.join}\n    -- the whole of it: #{@log}"
  end

  private

  # @return [Process::Status, nil] nil: it hung, and was ended with all that it had started
  def execute
    process = SupervisedProcess.start(@ruby.environment, *@ruby.rake, @suite.task, in: File::NULL,
                                      out: @log, err: %i[child out], pgroup: true)
    status = process.wait(@suite.limit)
    return status if status

    Process.kill(:QUIT, -process.pid)
    process.wait(2)
    nil
  ensure
    process&.terminate
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

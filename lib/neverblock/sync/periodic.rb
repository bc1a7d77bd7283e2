# frozen_string_literal: true

require_relative "../error_report"
require_relative "../errors"
require_relative "check"
require_relative "task"

module NB
  # Runs a block periodically, at multiples of an interval from the start, however long the block
  # takes: {NB.every}. A run begins only after the one before it has ended.
  #
  # @api private
  class Periodic
    # What happens to runs that became due while the block was running.
    MISSED = %i[skip queue].freeze
    private_constant :MISSED

    # @param interval [Numeric] seconds between two runs, > 0
    # @param jitter [Numeric] seconds, at most the interval
    # @param missed [Symbol] :skip or :queue
    # @raise [ArgumentError]
    def initialize(interval, jitter, missed, &block)
      @interval = Check.finite_seconds("NB.every: the interval", interval, positive: true)
      @jitter = Check.finite_seconds("NB.every: jitter:", jitter)
      refuse("jitter:", "at most the interval, #{interval} s", jitter) if @jitter > @interval
      refuse("missed:", ":skip or :queue", missed) unless MISSED.include?(missed)

      @missed = missed
      @block = block
    end

    # @return what `break` in the block gives
    # @scheduling always waits
    def call
      @start = now
      turn = 0
      loop do
        turn = following(turn)
        sleep([@start + (turn * @interval) + (rand * @jitter) - now, 0].max)
        run
      end
    rescue LocalJumpError => error
      raise unless Jump.break?(error, __FILE__)

      error.exit_value
    end

    private

    def following(turn)
      return turn + 1 if @missed == :queue

      [turn, ((now - @start) / @interval).floor].max + 1
    end

    def run
      @block.call
    rescue *FAILURES => error
      raise if Jump.break?(error, __FILE__)

      report(error)
    end

    def report(error)
      return unless Task.report_on_exception

      place = @block.source_location&.join(":")
      ErrorReport.write("NB.every(#{@interval}) at #{place}: a run raised, the next one comes " \
                        "all the same (report_on_exception is true)", error)
    end

    def refuse(name, allowed, value)
      raise ArgumentError, "NB.every: #{name} must be #{allowed}, got: #{value.inspect}"
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

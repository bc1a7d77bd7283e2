# frozen_string_literal: true

require_relative "../../lib/neverblock/cli/terminal"

module Bench
  # One status line: where we are, since when, how long it will still take. Silent when the output
  # is no terminal.
  class Progress
    # @param io [IO]
    # @param clock [#call] seconds
    def initialize(io = $stderr, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
      @io = io
      @clock = clock
      @live = NB::CLI::Terminal.live?(io)
      @spent = {}
    end

    # @param keys [Array<Object>] one per step to come: equal keys are expected to take equally long
    # @return [void]
    def begin(keys)
      @keys = keys
      @done = 0
      @started = @clock.call
    end

    # @param text [String] what is being done now
    # @return [void]
    def show(text)
      return unless @live

      line = @keys ? "[#{@done + 1}/#{@keys.size}] #{text}  #{times}" : text
      @io.print("\r\e[K#{line[0, width - 1]}")
      @io.flush
    end

    # @param seconds [Float, nil] what the step took; nil: it was left out
    # @param key [Object]
    # @return [void]
    def step(seconds, key = @keys[@done])
      (@spent[key] ||= []) << seconds if seconds
      @done += 1
    end

    # @param key [Object]
    # @param otherwise [Float] while nothing is known of it
    # @return [Float] seconds that a step of this key will take
    def expected(key, otherwise)
      known = @spent[key]
      known ? known.sum / known.size : otherwise
    end

    # @return [void]
    def clear
      @io.print("\r\e[K") if @live
    end

    # @return [Float, nil] seconds still to go; nil while nothing is known
    def remaining
      return if @spent.empty?

      all = @spent.values.flatten
      usual = all.sum / all.size
      @keys.drop(@done).sum { |key| expected(key, usual) }
    end

    # @param seconds [Float]
    # @return [String] "1:05" or "2:03:07"
    def self.duration(seconds)
      minutes, rest = seconds.round.divmod(60)
      hours, minutes = minutes.divmod(60)
      hours.zero? ? format("%d:%02d", minutes, rest) : format("%d:%02d:%02d", hours, minutes, rest)
    end

    private

    def times
      left = remaining
      text = "elapsed #{Progress.duration(@clock.call - @started)}"
      left ? "#{text}, about #{Progress.duration(left)} to go" : text
    end

    def width
      require "io/console"
      @io.winsize.last
    rescue SystemCallError, NoMethodError
      80
    end
  end
end

# frozen_string_literal: true

require "neverblock"
require_relative "program"

module Twins
  # One program, run by threads and by fibers: both must see the same.
  class Pair
    # Seconds for a program, which takes some milliseconds; on a busy machine a second.
    LIMIT = 60

    # @return [Integer]
    attr_reader :seed

    # @param seed [Integer]
    # @param options [Hash] of {NB.run}
    def initialize(seed, **options)
      @seed = seed
      @options = options
    end

    # @return [Array<String>] where fibers saw something else; empty: nowhere
    def differences
      threads = within { Program.new(seed).run { |work| Thread.new(&work) } }
      fibers = within { NB.run(**@options) { Program.new(seed).run { |work| NB.async(&work) } } }
      return ["threads: #{threads}, fibers: #{fibers}"] if [threads, fibers].any?(String)

      threads.zip(fibers).each_with_index.flat_map { |pair, index| compare(index, *pair) }
    end

    private

    # @return [Object] the block's value, or why there is none
    def within(&block)
      thread = Thread.new(&block)
      thread.report_on_exception = false
      return thread.value if thread.join(LIMIT)

      stands = thread.backtrace.to_a.first(8)
      thread.kill
      "hangs (#{stands.join(" < ")})"
    rescue StandardError => error
      error.full_message(highlight: false)
    end

    def compare(index, threads, fibers)
      threads.zip(fibers).each_with_index.filter_map do |(one, other), step|
        "worker #{index}, step #{step}: threads saw #{one}, fibers #{other}" if one != other
      end
    end
  end
end

# frozen_string_literal: true

require "neverblock"
require_relative "program"

module RandomPrograms
  # One program, run by threads and by fibers: both must see the same.
  class Pair
    # Seconds for a program, which takes some milliseconds; on a busy machine a second.
    LIMIT = 60
    # How fibers run it, with the options of {NB.run}.
    WAYS = {
      fibers: ->(program, options) { NB.run(**options) { program.run { |work| NB.async(&work) } } },
      fibers_and_threads: lambda do |program, options|
        kinds = [NB.method(:async), Thread.method(:new)].cycle
        NB.run(**options) { program.run { |work| kinds.next.call(&work) } }
      end,
      loops: lambda do |program, options|
        program.run { |work| Thread.new { NB.run(**options) { NB.async(&work).value } } }
      end
    }.freeze

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
      expected = within { Program.new(seed).run { |work| Thread.new(&work) } }
      return ["threads: #{expected}"] if expected.is_a?(String)

      WAYS.flat_map do |way, run|
        seen = within { run.call(Program.new(seed), @options) }
        seen.is_a?(String) ? ["#{way}: #{seen}"] : compare(way, expected, seen)
      end
    end

    private

    # @return [Object] the block's value, or why there is none
    def within(&block)
      thread = Thread.new(&block)
      thread.report_on_exception = false
      return thread.value if thread.join(LIMIT)

      stands = Thread.list.map do |one|
        one.backtrace.to_a.grep(/random_programs/).first(3).join(" < ")
      end
      children = `ps -o pid,stat,etime,args --ppid #{Process.pid}`
      "hangs at #{stands.join("; ")}\n#{NB.dump}\n#{children}".tap { thread.kill }
    rescue StandardError => error
      error.full_message(highlight: false)
    end

    def compare(way, expected, seen)
      expected.zip(seen).each_with_index.flat_map do |workers, index|
        workers.first.zip(workers.last).each_with_index.filter_map do |(one, other), step|
          next if one == other

          "worker #{index}, step #{step}: threads saw #{one}, #{way} #{other}"
        end
      end
    end
  end
end

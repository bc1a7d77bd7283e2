# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# Puts one process under random faults (slow, cut, reset and silent connections, no fds left,
# timeouts and cuts at random points) for so many seconds, both backends in turns, and looks for
# what is left behind. `ruby -Ilib -Itest test/soak.rb 600 [seed [backend]]`, or `rake soak[600]`.

require "neverblock"
require_relative "support/clock"
require_relative "support/soak/memory"
require_relative "support/soak/round"

module Soak
  # Rounds until the time is over; then the verdict.
  class Run
    include Clock

    ROUND = 5
    # From so many seconds on, each activity must have succeeded, even where others compute.
    LONG = 300

    def initialize(seconds, seed, backends)
      @backends = backends
      @seconds = seconds
      @seed = seed
      @random = Random.new(seed)
      @memory = Memory.new
      @rounds = 0
      @done = Hash.new(0)
      @failures = []
    end

    def run
      puts "soak: #{@seconds} s, seed #{@seed}, Ruby #{RUBY_VERSION}"
      start = clock
      until (left = @seconds - (clock - start)) < 1
        round = Round.new([ROUND, left].min, @backends[@rounds % @backends.size].to_sym,
@random).run
        note(round, clock - start)
        break if @failures.size > 20
      end
      verdict
    end

    private

    def note(round, elapsed)
      @failures.concat(round.failures)
      round.done.each { |what, count| @done[what] += count }
      held = @memory.note(@done.values.sum)
      puts format("%5.0f s  round %3d  %7d activities  %5d cut  %6d MB, %d kB of them by malloc, %d objects, %d fibers%s",
                  elapsed, @rounds += 1, held[:activities], @done[:cut], held[:resident_kb] / 1000, held[:malloc] / 1000,
                  held[:objects], held[:fibers], @failures.empty? ? "" : "  #{@failures.size} failures")
      $stdout.flush
    end

    def verdict
      @failures.concat(@memory.grown)
      in_vain if @seconds >= LONG
      @done.sort_by { |_, count| -count }.each { |what, count| puts format("%8d %s", count, what) }
      @failures.first(20).each { |failure| puts "FAILED #{failure}" }
      puts "#{@done.values.sum} activities, #{@failures.size} failed"
      @failures.empty?
    end

    # Faults end many of them, but never all. Only `timeouts` may always end by one.
    def in_vain
      vain = (Activities::NAMES - %i[timeouts]).select { |name| @done[:"#{name} done"].zero? }
      @failures << "never succeeded: #{vain.join(", ")}" if vain.any?
    end
  end
end

seconds = Float(ARGV[0] || 600)
seed = Integer(ARGV[1] || Random.new_seed % 1_000_000)
exit(Soak::Run.new(seconds, seed, ARGV[2] ? [ARGV[2]] : NB::Native.backends).run)
# rubocop:enable Layout/LineLength

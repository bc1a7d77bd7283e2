# frozen_string_literal: true

# The stop matrix: rounds of signals in every phase of a server's life, under load.
#
#   rake matrix:stop[200]       or: ruby -Ilib -Itest test/server/stop/run.rb 200 [seed]
#
# A round that fails prints its seed: rake matrix:stop[1,SEED] does the same again.

require_relative "round"

module StopMatrix
  # Rounds that run at a time: most of the time each waits.
  AT_ONCE = 3

  module_function

  # @param slow [Float] see {Script}
  # @return [Array<Round>] in no order
  # @yieldparam round [Round] that has ended
  def run(rounds, seed, slow: 5.0)
    scripts = Thread::Queue.new
    rounds.times { |i| scripts << Script.new(seed + i, slow: slow) }
    scripts.close
    done = Thread::Queue.new
    threads = Array.new(AT_ONCE) do
      Thread.new do
        while (script = scripts.pop)
          done << Round.new(script).run.tap { |round| yield round if block_given? }
        end
      end
    end
    threads.each(&:join)
    Array.new(done.size) { done.pop }
  end
end

if $PROGRAM_NAME == __FILE__
  count = Integer(ARGV.fetch(0, "200"))
  seed = Integer(ARGV.fetch(1, Random.new_seed % 1_000_000))
  $stdout.sync = true
  puts "#{count} rounds from seed #{seed}"
  rounds = StopMatrix.run(count, seed) { |round| puts round if round.faults.any? }
  failed = rounds.count { |round| round.faults.any? }
  puts "#{rounds.sum { |round| round.answered.to_i }} answers in #{count} rounds, #{failed} failed"
  exit failed.zero?
end

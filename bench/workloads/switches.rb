# frozen_string_literal: true

module Bench
  module Workloads
    # What it costs to go from one job to another and back, by every door that Ruby has.
    class Switches < Workload
      DEFAULTS = { way: "queue", turns: 20_000 }.freeze

      # @return [Integer] switches
      def round
        turns = params[:turns]
        turns /= 4 if params[:way] == "pipe" # the slowest by far
        send(params[:way], turns)
        turns * 2
      end

      # @return [Hash] :value in nanoseconds per switch
      def measure
        sample = super
        sample.merge(value: 1e9 / sample[:value])
      end

      private

      # Fiber#resume there, Fiber.yield back.
      def resume(turns)
        count = 0
        fiber = Fiber.new { loop { Fiber.yield(count += 1) } }
        turns.times { fiber.resume }
        expect(count == turns, "#{count} of #{turns} turns")
      end

      # Fiber#transfer both ways.
      def transfer(turns)
        count = 0
        home = Fiber.current
        fiber = Fiber.new { loop { home.transfer(count += 1) } }
        turns.times { fiber.transfer }
        expect(count == turns, "#{count} of #{turns} turns")
      end

      # Two jobs hand a token over by two queues: the scheduler's block and unblock.
      def queue(turns)
        there = Thread::Queue.new
        back = Thread::Queue.new
        gather(2) do |index|
          if index.zero?
            turns.times { |turn| expect((there << turn) && back.pop == turn, "token differs") }
          else
            turns.times { back << there.pop }
          end
        end
      end

      # Two jobs hand a byte over by two pipes: the scheduler's io_wait.
      def pipe(turns)
        there = IO.pipe
        back = IO.pipe
        gather(2) do |index|
          if index.zero?
            turns.times { expect(there[1].write("!") && back[0].readpartial(1) == "!", "byte") }
          else
            turns.times { back[1].write(there[0].readpartial(1)) }
          end
        end
        [there, back].flatten.each(&:close)
      end
    end
  end
end

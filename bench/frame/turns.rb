# frozen_string_literal: true

module Bench
  # In a cell: when it works and when the cells that it is compared with do. It works for a moment,
  # prints a line, and waits for one. So whatever the machine does meanwhile strikes them all.
  class Turns
    # What a cell prints when its turn is over.
    OVER = "turn over"
    # Seconds that a turn lasts at least.
    LENGTH = 0.1

    # @param input [IO] where each turn is announced
    # @param output [IO]
    def initialize(input: $stdin, output: $stdout)
      @input = input
      @output = output
      @began = now
    end

    # @return [Boolean] whether the turn has lasted long enough
    def over? = now - @began >= LENGTH

    # Waits for the next turn, outside of whatever scheduler there is.
    #
    # @return [Float] seconds that it waited
    def rest
      asked = now
      Fiber.new(blocking: true) do
        @output.puts(OVER)
        @output.flush
        exit!(1) unless @input.gets # nobody will ask for the sample
      end.resume
      @began = now
      @began - asked
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

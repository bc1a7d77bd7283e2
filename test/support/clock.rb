# frozen_string_literal: true

# The one clock of the tests.
module Clock
  extend self

  # @return [Float] seconds of the monotonic clock
  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# frozen_string_literal: true

# The one clock of the tests.
module Clock
  extend self

  # @return [Float] seconds of the monotonic clock
  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # @return [Float] how many the block takes
  def seconds
    start = clock
    yield
    clock - start
  end
end

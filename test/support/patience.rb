# frozen_string_literal: true

# Waits for what another fiber, thread or process brings about. The limit is for what never comes:
# no test is to depend on how fast a busy machine is.
module Patience
  LIMIT = 60

  # @yieldreturn [Object] what is waited for; nil and false: not yet
  # @return [Object] the block's value
  # @raise [Minitest::Assertion] when it does not come
  def eventually(seconds = LIMIT)
    deadline = clock + seconds
    pause = 0.001
    until (value = yield)
      flunk ["not in #{seconds} s", so_far].compact.join(": ") if clock > deadline
      sleep pause
      pause = [pause * 1.25, 0.02].min
    end
    value
  end

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # @return [String, nil] for the message, such as a program's log
  def so_far = nil
end

# frozen_string_literal: true

require_relative "clock"

# Waits for something that another fiber, thread or process brings about. The limit is only for what
# never comes: no test may depend on the speed of a busy machine.
module Patience
  include Clock

  LIMIT = 60

  # @yieldreturn [Object] the awaited value; nil and false mean not yet
  # @return [Object] the block's value
  # @raise [Minitest::Assertion] if it does not come
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

  # @return [String, nil] for the message, such as a program's log
  def so_far = nil
end

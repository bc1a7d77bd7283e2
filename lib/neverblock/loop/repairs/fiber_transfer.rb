# frozen_string_literal: true

# Fiber#transfer. When a fiber that was entered by transfer ends, Ruby continues in the thread's
# first fiber (all versions). In a loop, that fiber runs no code of the program, and the caller of
# transfer waited forever. Here the fiber of the loop takes its place. In C, because switches are
# short.
module NB
  module Repairs
    Native.watch_transfers
  end
end

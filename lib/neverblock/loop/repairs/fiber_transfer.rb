# frozen_string_literal: true

# Fiber#transfer. When a fiber ends that was entered by it, Ruby goes on in the thread's first fiber
# (all versions). In a loop that one runs no code of the program's, and who had called transfer
# waited forever. Here the fiber of the loop takes its place. In C, as switches are short.
module NB
  module Repairs
    Native.watch_transfers
  end
end

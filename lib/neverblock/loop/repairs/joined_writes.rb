# frozen_string_literal: true

# IO#write of several strings, and so puts, for an IO that is not buffered. Threads write them by
# one writev(2); under a scheduler Ruby (3.1 to 3.4) calls io_write for each, and lines of two
# fibers mixed. In a loop they are joined first. In C, since every write comes this way.
module NB
  module Repairs
    Native.join_writes
  end
end

# frozen_string_literal: true

# IO#write of several strings, and so puts, for an unbuffered IO. Threads write them with one
# writev(2). Under a scheduler, Ruby (3.1 to 3.4) calls io_write for each, and lines of two fibers
# mix. In a loop they are joined first. In C, because every write comes this way.
module NB
  module Repairs
    Native.join_writes
  end
end

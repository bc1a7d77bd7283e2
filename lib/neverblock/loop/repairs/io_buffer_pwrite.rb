# frozen_string_literal: true

# IO::Buffer#pwrite. Ruby 3.1 passes a wrong position to the hook: it converts an Integer that
# already is one, so 6 becomes 13. Here the hook is called without Ruby.
module NB
  module Repairs
    repair(IO::Buffer, :pwrite) do |original|
      proc do |io, length, offset|
        scheduler = Repairs.loop_here
        next __send__(original, io, length, offset) unless scheduler

        scheduler.io_pwrite(io, self, length, offset)
      end
    end
  end
end

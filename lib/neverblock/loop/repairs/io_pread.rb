# frozen_string_literal: true

# IO#pread and IO#pwrite. Ruby 3.3 and 3.4 make an IO::Buffer and call the hook without holding the
# GVL, which corrupts the interpreter. Here they run in a blocking section, where they see no
# scheduler.
module NB
  module Repairs
    %i[pread pwrite].each do |name|
      repair(IO, name) do |original|
        proc do |*arguments|
          next __send__(original, *arguments) unless Fiber.current_scheduler

          Fiber.blocking { __send__(original, *arguments) }
        end
      end
    end
  end
end

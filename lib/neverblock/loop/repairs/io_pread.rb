# frozen_string_literal: true

# IO#pread and IO#pwrite. Ruby 3.3 and 3.4 make an IO::Buffer and call the hook without holding the
# GVL, which corrupts the interpreter. In a blocking stretch they see no scheduler.
module NB
  module Repairs
    %i[pread pwrite].each do |name|
      replace(IO, name) do |original|
        proc do |*arguments|
          next original.bind_call(self, *arguments) unless Fiber.current_scheduler

          Fiber.blocking { original.bind_call(self, *arguments) }
        end
      end
    end
  end
end

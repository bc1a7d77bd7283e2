# frozen_string_literal: true

# IO#close_read of a two-way pipe. From Ruby 4.0 on the scheduler is told of each close, so the
# repair in io_close.rb is not needed. But Ruby hands the hooks of a later write an object that is
# closed, as before.
module NB
  module Repairs
    repair(IO, :close_read) do |original|
      proc do
        next __send__(original) unless Repairs.main?

        Native.close_read(self, original)
      end
    end
  end
end

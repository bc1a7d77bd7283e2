# frozen_string_literal: true

# IO.select and Kernel#select. Ruby 3.1 has no io_select hook (it came with 3.2), so they would stop
# the whole thread.
module NB
  module Repairs
    body = lambda do |original|
      proc do |*lists|
        scheduler = Repairs.loop_here
        next __send__(original, *lists) unless scheduler && lists.size.between?(1, 4)

        scheduler.io_select(*lists)
      end
    end
    repair(IO.singleton_class, :select, &body)
    repair(Kernel, :select, &body)
    repair(Kernel.singleton_class, :select, &body)
  end
end

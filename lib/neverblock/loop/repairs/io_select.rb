# frozen_string_literal: true

# IO.select and Kernel#select. Ruby 3.1 has no io_select hook (it came with 3.2): they would stop
# the whole thread.
module NB
  module Repairs
    body = lambda do |original|
      proc do |*lists|
        scheduler = Repairs.loop_here
        next original.bind_call(self, *lists) unless scheduler && lists.size.between?(1, 4)

        scheduler.io_select(*lists)
      end
    end
    replace(IO.singleton_class, :select, &body)
    replace(Kernel, :select, &body)
    replace(Kernel.singleton_class, :select, &body)
  end
end

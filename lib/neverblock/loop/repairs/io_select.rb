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
    # A program may have put a method of its own in the place of Ruby's, as Net::SSH::Test does. It
    # is called as before, and calls Ruby's by the name under which it has kept that.
    name = lambda do |owner|
      rubys = lambda do |one|
        method = owner.instance_method(one)
        method.source_location.nil? && method.original_name == :select
      end
      all = owner.instance_methods(false) + owner.private_instance_methods(false)
      rubys[:select] ? :select : all.find(&rubys) || :select
    end
    [IO.singleton_class, Kernel, Kernel.singleton_class].each do |owner|
      repair(owner, name[owner], &body)
    end
  end
end

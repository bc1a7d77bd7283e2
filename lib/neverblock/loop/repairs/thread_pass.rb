# frozen_string_literal: true

# Thread.pass. No Ruby (3.1 to 3.4) asks the scheduler: only other threads get a turn, so a fiber
# that passes until another fiber has done something passes forever. Here the other fibers get a
# turn, too.
module NB
  module Repairs
    repair(Thread.singleton_class, :pass) do |original|
      proc do
        Native.pass
        __send__(original)
      end
    end
  end
end

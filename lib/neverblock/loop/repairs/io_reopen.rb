# frozen_string_literal: true

# IO#reopen while fibers wait for that IO. No Ruby tells the scheduler that the fd now belongs to
# another file. Blocking Ruby raises IOError ("stream closed in another thread") in such threads.
module NB
  module Repairs
    repair(IO, :reopen) do |original|
      proc do |*arguments, **options|
        __send__(original, *arguments, **options).tap do
          Native.closing(self, :reopen) if Repairs.main?
        end
      end
    end
  end
end

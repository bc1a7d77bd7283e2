# frozen_string_literal: true

# IO#close while fibers wait for that IO. Before Ruby 4.0 nobody tells the scheduler, and they wait
# for ever; blocking Ruby raises IOError ("stream closed in another thread") in such threads.
module NB
  module Repairs
    replace(IO, :close) do |original|
      proc do
        Native.closing(fileno) unless closed?
        original.bind_call(self)
      end
    end
  end
end

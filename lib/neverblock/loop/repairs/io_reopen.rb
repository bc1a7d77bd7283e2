# frozen_string_literal: true

# IO#reopen while fibers wait for that IO. No Ruby tells the scheduler that the fd now belongs to
# another file. Blocking Ruby raises IOError ("stream closed in another thread") in such threads.
# And a fiber that reopens what a thread uses could wait for the end of that thread.
require_relative "../io_users"

module NB
  module Repairs
    repair(IO, :reopen) do |original|
      proc do |*arguments, **options|
        next __send__(original, *arguments, **options) unless Repairs.main?

        IOUsers.drive_out(self, :reopen) do
          __send__(original, *arguments, **options).tap { Native.closing(self, :reopen) }
        end
      end
    end
  end
end

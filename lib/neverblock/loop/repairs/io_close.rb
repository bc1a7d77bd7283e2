# frozen_string_literal: true

require "socket"
require_relative "../io_users"

# IO#close, #close_read, #close_write and the end of IO.popen's block while fibers wait for that IO.
# Before Ruby 4.0 nothing tells the scheduler, and the fibers wait forever. Blocking Ruby raises
# IOError ("stream closed in another thread") in such threads. A two-way pipe has an fd per
# direction. And a fiber that closes what a thread uses could wait for that thread's end.
module NB
  module Repairs
    [IO, BasicSocket].product(%i[close close_read close_write]).each do |owner, name|
      next unless owner.method_defined?(name, false)

      repair(owner, name) do |original|
        proc do
          next __send__(original) unless Repairs.main?

          IOUsers.drive_out(self, name) { Native.close(self, name, original) }
        end
      end
    end

    # With a block, it closes in C without calling any of these methods.
    repair(IO.singleton_class, :popen) do |original|
      proc do |*arguments, **options, &block|
        unless block && Repairs.loop_here
          next __send__(original, *arguments, **options, &block)
        end

        __send__(original, *arguments, **options) do |io|
          block.call(io)
        ensure
          IOUsers.there?(io) ? io.close : Native.closing(io, :close) if io
        end
      end
    end
  end
end

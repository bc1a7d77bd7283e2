# frozen_string_literal: true

# IO#sysread and IO#syswrite. Ruby calls io_read or io_write once, and raises Errno::EAGAIN where
# blocking Ruby waits; the hook cannot tell these calls from read_nonblock. Only IO#timeout ends the
# wait.
module NB
  module Repairs
    %i[sysread syswrite].each do |name|
      wait = name == :sysread ? :wait_readable : :wait_writable
      repair(IO, name) do |original|
        proc do |*arguments|
          begin
            __send__(original, *arguments)
          rescue Errno::EAGAIN
            raise unless Repairs.loop_here

            raise IO::TimeoutError, "Blocking operation timed out!" unless public_send(wait)

            retry
          end
        end
      end
    end
  end
end

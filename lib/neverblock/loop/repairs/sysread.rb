# frozen_string_literal: true

# IO#sysread and IO#syswrite. Ruby calls io_read or io_write once, and raises Errno::EAGAIN where
# blocking Ruby waits; the hook cannot tell these calls from read_nonblock. Only IO#timeout ends the
# wait.
module NB
  module Repairs
    # @return what the call returns, or nil if it has to wait
    # @api private
    def self.attempt(io, original, arguments)
      io.__send__(original, *arguments)
    rescue Errno::EAGAIN
      raise unless loop_here
    end

    %i[sysread syswrite].each do |name|
      wait = name == :sysread ? :wait_readable : :wait_writable
      repair(IO, name) do |original|
        proc do |*arguments|
          until (result = Repairs.attempt(self, original, arguments))
            raise IO::TimeoutError, "Blocking operation timed out!" unless public_send(wait)
          end
          result
        end
      end
    end
  end
end

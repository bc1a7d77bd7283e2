# frozen_string_literal: true

require "rbconfig"
require "socket"

# recv, send, accept, read_nonblock, write_nonblock and the like. No Ruby (3.1 to 3.4) asks the
# scheduler while these calls succeed at once, so a loop around one (Net::HTTP from a fast sender)
# stopped all other fibers. Here they count like reads that need no wait: after 64 calls, or a
# millisecond, the other fibers get a turn. For SSLSocket see drivers/openssl.rb. (IO#read_nonblock
# and the methods that sockets inherit from IO ask io_read and io_write.)
#
# A socket in blocking mode (for_fd, as from systemd, or nonblock = false) becomes non-blocking
# before such a call: it would stop the whole thread, since Ruby asks the scheduler after EAGAIN.
module NB
  module Repairs
    {
      BasicSocket => %i[recv send __recvmsg __sendmsg
                        __recv_nonblock __recvmsg_nonblock __sendmsg_nonblock],
      IPSocket => %i[recvfrom], UNIXSocket => %i[recvfrom recv_io send_io],
      Socket => %i[accept sysaccept recvfrom __accept_nonblock __recvfrom_nonblock],
      TCPServer => %i[accept sysaccept __accept_nonblock],
      UNIXServer => %i[accept sysaccept __accept_nonblock],
      UDPSocket => %i[__recvfrom_nonblock]
    }.each do |owner, names|
      names.each do |name|
        next unless owner.method_defined?(name, false) || owner.private_method_defined?(name, false)

        Native.count_calls(owner, name)
      end
    end

    # The two that Net::HTTP uses most are written out while they are still Ruby's own: a counted
    # call in C costs six times as much.
    nonblock = %i[read_nonblock write_nonblock]
    ruby = "#{RbConfig::CONFIG["rubylibdir"]}/socket.rb"
    if nonblock.all? { |name| BasicSocket.instance_method(name).source_location&.first == ruby }
      nonblock.each { |name| BasicSocket.alias_method(name, name) } # keeps Ruby from warning

      # Ruby's own methods, counted.
      class ::BasicSocket
        def read_nonblock(len, str = nil, exception: true) # :nodoc:
          Native.count_call
          __read_nonblock(len, str, exception)
        end

        def write_nonblock(buf, exception: true) # :nodoc:
          Native.count_call
          __write_nonblock(buf, exception)
        end
      end
    else
      nonblock.each { |name| Native.count_calls(BasicSocket, :"__#{name}") }
    end

    # A UNIX socket has to stay in blocking mode: otherwise connect raises EAGAIN where it waits for
    # room in the server's queue.
    repair(Socket, :connect) do |original|
      proc do |address|
        Native.count_wait(self) if Repairs.loop_here && !local_address.unix?
        __send__(original, address)
      end
    end

    repair(UDPSocket, :send) do |original|
      proc do |*arguments|
        Native.count_wait(self)
        __send__(original, *arguments)
      end
    end

    repair(IO, :write_nonblock) do |original|
      proc do |buf, exception: true|
        Native.count_call
        __send__(original, buf, exception: exception)
      end
    end
  end
end

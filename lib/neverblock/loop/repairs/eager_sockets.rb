# frozen_string_literal: true

require "rbconfig"
require "socket"

# recv, send, accept, read_nonblock, write_nonblock and the like. No Ruby (3.1 to 3.4) asks the
# scheduler while these calls succeed at once, so a loop around one (Net::HTTP from a fast sender)
# stopped all other fibers. Here they count like reads that need no wait: after 64 calls, or a
# millisecond, the other fibers get a turn. For SSLSocket see drivers/openssl.rb. (IO#read_nonblock
# and the methods that sockets inherit from IO ask io_read and io_write.)
#
# With a socket in blocking mode (for_fd, as from systemd, or nonblock = false) such a call would
# stop the whole thread, since Ruby asks the scheduler after EAGAIN. Those that take flags get
# MSG_DONTWAIT, and for the others the socket becomes non-blocking: a server for good, another
# (recv_io, send_io) during the call.
module NB
  module Repairs
    class << self
      # A stream socket in blocking mode took only a part of a message at once, and Ruby's caller
      # expects it to take all. An error strikes at the next call, as the kernel does it.
      #
      # @param arguments [Array] how many bytes it took, and what the original got
      # @return [Integer] the bytes sent
      # @scheduling may wait
      # @api private
      def send_rest(socket, original, *arguments)
        sent, message, *rest = arguments
        rest[2] = nil if rest.size > 2 # controls went with the first part
        until sent == message.bytesize
          sent += socket.__send__(original, message.byteslice(sent..), *rest)
        end
        sent
      rescue SystemCallError
        sent
      end

      # MSG_WAITALL for a stream socket in blocking mode.
      #
      # @return what the original returns, with all bytes, or those before the end or an error
      # @scheduling may wait
      # @api private
      def receive_all(socket, original, *arguments)
        length, flags, *rest = arguments
        flags &= ~Socket::MSG_WAITALL
        result = socket.__send__(original, length, flags, *rest)
        bytes = first_of(result)
        rest = [] if rest.first.equal?(bytes)
        while bytes && length.is_a?(Integer) && bytes.bytesize < length
          more = first_of(socket.__send__(original, length - bytes.bytesize, flags, *rest))
          break if more.nil? || more.empty?

          bytes << more
        end
        result
      rescue SystemCallError
        result || raise
      end

      # MSG_PEEK | MSG_WAITALL for one. The bytes stay where they are: a thread may wait for them.
      #
      # @return what the original returns
      # @scheduling may wait
      # @api private
      def peek_all(socket, original, *arguments)
        length, flags, *rest = arguments
        waiter = Thread.new do
          Thread.current.report_on_exception = false
          socket.__send__(original, length, flags & ~Socket::MSG_DONTWAIT, *rest)
        end
        waiter.value
      ensure
        waiter&.kill
      end

      private

      def first_of(result) = result.is_a?(Array) ? result.first : result
    end

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
        blocks = Repairs.loop_here && !local_address.unix? && Native.count_wait(self)
        __send__(original, address)
      ensure
        Native.block(self) if blocks
      end
    end

    repair(UDPSocket, :send) do |original|
      proc do |*arguments|
        Native.count_call
        waits = Repairs.loop_here && arguments[1].is_a?(Integer)
        arguments[1] |= Socket::MSG_DONTWAIT if waits
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

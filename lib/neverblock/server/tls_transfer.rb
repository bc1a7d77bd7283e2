# frozen_string_literal: true

require "openssl"
require "socket"

module NB
  class Server
    # A part of {Tls}: carries the bytes of one connection between its client and the core.
    #
    # @api private
    module TlsTransfer
      # The largest TLS record.
      PART_BYTES = 16_384
      # Seconds for a client that still sends, as in connection.c.
      LINGER = 2
      # A connection to the core, and the fiber that passes on what the client sends.
      Coupling = Struct.new(:transport, :receiver)
      # What its two fibers are called.
      NAME = "a TLS connection"
      private_constant :PART_BYTES, :LINGER, :Coupling, :NAME

      private

      # Carries bytes both ways until the server ends its side or either side breaks.
      def couple(secure, address, fiber)
        inside, outside = UNIXSocket.pair
        inside.autoclose = false # the core's
        transport = @core.adopt(inside.fileno, true, address) or return
        received = Thread::Queue.new
        @serving[fiber] = coupling = Coupling.new(transport)
        coupling.receiver = FiberNames.schedule(NAME) { receive(secure, outside, received) }
        whole = pump_out(secure, outside, transport) && !transport.cut?
        end_well(secure, transport, received) if whole
      ensure
        cut(secure, outside, reset: transport ? transport.cut? : false)
      end

      # What was written into a hijacked socket still goes out when the loop ends, as far as the
      # kernel takes it at once.
      def pump_out(secure, outside, transport)
        between = true
        pump(outside) do |part|
          between = false
          send_part(secure, part)
          between = true
        end
      rescue NB::Cancelled
        pass_rest(secure, outside) if between && transport.detached?
        raise
      end

      def pass_rest(secure, outside)
        while (part = outside.read_nonblock(PART_BYTES, exception: false)).is_a?(String)
          return unless secure.write_nonblock(part, exception: false) == part.bytesize
        end
        secure.close if part.nil?
      rescue OpenSSL::SSL::SSLError, SystemCallError, IOError
        nil # the client is gone
      end

      # Passes on what the client sends.
      def receive(secure, outside, received)
        pump(secure) { |part| pass(part, outside) } ? outside.close_write : cut(secure, outside)
      rescue IOError
        raise unless outside.closed? # by the other direction, perhaps while this close waited
      ensure
        received << true
      end

      # Drops what comes after the core has ended: its answer may still be on its way.
      def pass(part, outside)
        outside.write(part)
      rescue Errno::EPIPE
        Fiber.scheduler.yield
      end

      # Closing a socket with unread bytes resets it, and the client may never see the answer. So a
      # client that still sends gets its time, as without TLS.
      def end_well(secure, transport, received)
        return secure.close unless transport.lingers? || secure.to_io.wait_readable(0)

        secure.sync_close = false
        secure.close
        secure.to_io.close_write
        ::Timeout.timeout(LINGER) { received.pop }
      rescue ::Timeout::Error, SystemCallError
        nil # it has had its time, or is gone
      end

      # Reads until the end of `from`. True: the other side can still be written.
      def pump(from)
        loop { yield from.readpartial(PART_BYTES) }
      rescue EOFError
        true
      rescue OpenSSL::SSL::SSLError, SystemCallError, IOError
        false
      end

      # Closes without the notice that everything has been sent (close_notify). A client that does
      # not look for that notice must not take a part for the whole either: where the core would
      # reset the connection, so does this.
      def cut(secure, outside, reset: false)
        socket = secure.to_io
        socket.setsockopt(Socket::Option.linger(true, 0)) if reset && !socket.closed?
        socket.close
        outside&.close
      end

      # The same rule as for the core's own clients: time is up when they accept no byte.
      def send_part(secure, part)
        until part.empty?
          case written = secure.write_nonblock(part, exception: false)
          when :wait_writable then wait_for(secure.to_io, IO::WRITABLE)
          when :wait_readable then wait_for(secure.to_io, IO::READABLE)
          else part = part.byteslice(written..)
          end
        end
      end

      # The socket becomes writable only when much of it is free; a slow client may need longer for
      # that.
      def wait_for(socket, events)
        taken = @core.unacknowledged(socket.fileno)
        return if Fiber.scheduler.io_wait(socket, events, @options[:write_timeout])
        return if @core.unacknowledged(socket.fileno) < taken

        @core.count_timeout
        raise Errno::ETIMEDOUT, "the client reads nothing"
      end
    end
  end
end

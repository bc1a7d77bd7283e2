# frozen_string_literal: true

require "forwardable"
require "openssl"
require "socket"
require "uri"
require_relative "admission"
require_relative "binding"

module NB
  class Server
    # `ssl://host:port?cert=path&key=path`: TLS through the openssl gem. One fiber per connection
    # decrypts in front of the server, connected to it by a socket pair. This suits development and
    # machines without a proxy, not ten thousand connections.
    #
    # @api private
    class Tls
      extend Forwardable

      # The largest TLS record.
      PART_BYTES = 16_384
      # The client's socket, and the two of the socket pair.
      FDS_EACH = 3
      # Seconds that connections stay with the kernel while fds or memory are short.
      RETRY = 0.1
      # Seconds for a handshake while the server drains: browsers open connections they may never
      # use.
      HANDSHAKE = 2
      # Seconds for a client that still sends, as in connection.c.
      LINGER = 2

      # What follows the question mark; :listener is our own, see {#inheritance}.
      OPTIONS = %w[cert key listener].freeze
      # OpenSSL 1.1 has no such option (1 << 7), and needs none.
      IGNORE_EOF = defined?(OpenSSL::SSL::OP_IGNORE_UNEXPECTED_EOF) ? 1 << 7 : 0
      private_constant :OPTIONS, :IGNORE_EOF

      class << self
        # @raise [ArgumentError]
        def parse(address)
          place, query = address.delete_prefix("ssl://").split("?", 2)
          options = URI.decode_www_form(query.to_s).to_h
          check(options)
          new(Binding.parse(options["listener"] || tcp(place)), *options.values_at("cert", "key"))
        rescue SystemCallError, OpenSSL::OpenSSLError, ArgumentError => error
          raise ArgumentError, error.message if error.message.start_with?("bind: ")

          raise ArgumentError, "bind: #{address}: #{error.message}"
        end

        private

        # Nothing is ignored: whoever names a `ca` or a `verify_mode` counts on it.
        def check(options)
          unknown = options.keys - OPTIONS
          raise ArgumentError, "ssl:// takes cert and key only, not #{unknown.join(", ")}: leave " \
                               "that, such as client certificates, to a proxy" if unknown.any?

          missing = %w[cert key].reject { |name| File.file?(options[name].to_s) }
          raise ArgumentError, "no file for #{missing.join(" and ")}: give ?cert=FILE&key=FILE" if
            missing.any?
        end

        def tcp(place)
          place = place.to_s.delete_suffix("/")
          "tcp://#{place}#{":443" unless place.match?(/:\d+\z/)}"
        end
      end

      def initialize(binding, certificate, key)
        @binding = binding
        @files = {"cert" => certificate, "key" => key}
        @context = OpenSSL::SSL::SSLContext.new
        chain = OpenSSL::X509::Certificate.load_file(certificate)
        @context.add_certificate(chain.first, private_key(key), chain.drop(1))
        @context.min_version = OpenSSL::SSL::TLS1_2_VERSION
        # A client that only closes its sending side, without a notice, still gets its answer, as
        # without TLS. HTTP itself tells whether the request is whole.
        @context.options |= IGNORE_EOF
        @context.alpn_select_cb = ->(protocols) { protocol(protocols) }
      end

      # As {Binding#beside}.
      # @return [self]
      def beside(other)
        @binding.beside(other)
        self
      end

      # Opens the listener.
      # @param options see {Binding#open}
      # @return [self]
      def open(**options)
        @binding.open(**options)
        self
      end

      # Accepts on the core's loop, one fiber per connection.
      # @param options [Options]
      # @return [void]
      def attach(core, options)
        @core, @options = core, options
        most = [options[:connections], Options.connections_by_fd_limit / FDS_EACH].min
        @open = Thread::SizedQueue.new(most)
        @serving = {}.compare_by_identity # fiber => whether its handshake is done
        @ended = Thread::Queue.new
        @waiting = Admission.new { |socket| serve(socket, Fiber.current) }
        @accepting = Fiber.schedule { accept_all }
      end

      # Accepts everything the kernel let in: the limit is for later connections.
      # @return [Boolean] false: fds or memory are short
      def accept_rest
        @binding.backlog.succ.times do
          return false unless @waiting.admit

          socket, = @binding.io.accept_nonblock(exception: false)
          break if socket == :wait_readable

          @open.max += 1
          @open << true
          @waiting << socket
        rescue Errno::ECONNABORTED
          next
        end
        @waiting.admit
      rescue Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM
        false
      end

      # Waits until every connection has passed on the core's answers.
      # @param seconds [Numeric, nil] the limit
      # @return [Boolean] whether they all have
      def join(seconds)
        handshakes = [HANDSHAKE, seconds].compact.min
        within(handshakes) || stop { |done| !done }
        within(seconds && (seconds - handshakes))
      end

      # Ends the connections, or those for which the block is true.
      # @yieldparam done [Boolean] whether the connection's handshake is done
      # @return [void]
      def stop
        (@serving || {}).to_a.each do |fiber, done|
          next if block_given? && !yield(done)

          Fiber.scheduler.fiber_interrupt(fiber, NB::Cancelled.new("the server stops"))
        end
      end

      # As {Binding} does it.
      def_delegators :@binding, :close, :refuse, :waited_for?, :inherit, :io, :port

      # @return [String] see {Binding#inheritance}
      def inheritance
        "ssl://inherited?#{URI.encode_www_form(@files.merge("listener" => @binding.inheritance))}"
      end

      # @return [String] the address as a URL
      def to_s = @binding.to_s.sub("tcp:", "ssl:")

      private

      # Without a password OpenSSL would ask the terminal for that of an encrypted key.
      def private_key(file)
        OpenSSL::PKey.read(File.read(file), "")
      rescue OpenSSL::PKey::PKeyError => error
        raise ArgumentError, "cannot read the private key, which must not be encrypted (openssl " \
                             "pkey decrypts it): #{error.message}"
      end

      # Returns a String or raises: anything else ends in a backtrace. The client gets an alert (RFC
      # 7301 3.2).
      def protocol(offered)
        return "http/1.1" if offered.include?("http/1.1")

        raise OpenSSL::SSL::SSLError, "the client speaks none of our protocols"
      end

      # As with plain listeners: beyond the limit, or without fds, connections stay with the kernel,
      # and no error of one connection ends it (man 2 accept: the network's are reported, too).
      def accept_all(listener = @binding.io)
        loop do
          Fiber.scheduler.idle { @open << true }
          socket, = Fiber.scheduler.idle { listener.accept }
          @waiting << socket
          Fiber.scheduler.idle { sleep RETRY } until @waiting.admit
        rescue SystemCallError => error
          raise if error.is_a?(Errno::EBADF)

          @open.pop
          Fiber.scheduler.idle { sleep RETRY } unless error.is_a?(Errno::ECONNABORTED)
        end
      rescue IOError, Errno::EBADF
        nil # the listener was closed: the server drains
      end

      # @return [Boolean] whether all have ended within so many seconds
      def within(seconds)
        return @serving.empty? if seconds && !seconds.positive?

        ::Timeout.timeout(seconds) { @ended.pop until @serving.empty? }
        true
      rescue ::Timeout::Error
        false
      end

      def serve(socket, fiber)
        @serving[fiber] = false
        secure = OpenSSL::SSL::SSLSocket.new(socket, @context).tap { |tls| tls.sync_close = true }
        ::Timeout.timeout(@options[:header_timeout]) { secure.accept }
        @serving[fiber] = true
        couple(secure, socket.remote_address.ip_address)
      rescue ::Timeout::Error
        @core.count_timeout
      rescue OpenSSL::SSL::SSLError, SystemCallError, IOError, FiberError
        nil # not an HTTPS client; or there is no room for the second fiber
      ensure
        socket.close unless socket.closed?
        @serving.delete(fiber)
        @open.pop
        @ended << true if @serving.empty? && @ended.empty? # nobody takes it before a stop
      end

      # Carries bytes both ways until the server ends its side or either side breaks.
      def couple(secure, address)
        inside, outside = UNIXSocket.pair
        inside.autoclose = false # the core's
        carrier = @core.adopt(inside.fileno, true, address) or return
        received = Thread::Queue.new
        Fiber.schedule { receive(secure, outside, received) }
        whole = pump(outside) { |part| send_part(secure, part) } && !carrier.cut?
        end_well(secure, carrier, received) if whole
      ensure
        cut(secure, outside, reset: carrier ? carrier.cut? : false)
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
      def end_well(secure, carrier, received)
        return secure.close unless carrier.lingers? || secure.to_io.wait_readable(0)

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

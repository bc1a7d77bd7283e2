# frozen_string_literal: true

require "forwardable"
require "openssl"
require "socket"
require "uri"
require_relative "admission"
require_relative "binding"
require_relative "tls_transfer"

module NB
  class Server
    # `ssl://host:port?cert=path&key=path`: TLS through the openssl gem. One fiber per connection
    # decrypts in front of the server, connected to it by a socket pair. This suits development and
    # machines without a proxy, not ten thousand connections.
    #
    # @api private
    class Tls
      extend Forwardable
      include TlsTransfer

      # The client's socket, and the two of the socket pair.
      FDS_EACH = 3
      # Seconds that connections stay with the kernel while fds or memory are short.
      RETRY = 0.1
      # Seconds for a handshake while the server drains: browsers open connections they may never
      # use.
      HANDSHAKE = 2

      # What follows the question mark; :listener is our own, see {#inheritance}.
      OPTIONS = %w[cert key listener].freeze
      # OpenSSL 1.1 has no such option (1 << 7), and needs none.
      IGNORE_EOF = defined?(OpenSSL::SSL::OP_IGNORE_UNEXPECTED_EOF) ? 1 << 7 : 0
      # The answer to a request without TLS.
      NOT_HTTPS = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 40\r\n" \
                  "Connection: close\r\n\r\nThis port speaks HTTPS: ask by https://\n"
      # By their names in ALPN, the preferred one first.
      PROTOCOLS = %w[http/1.1 http/1.0].freeze
      private_constant :OPTIONS, :IGNORE_EOF, :NOT_HTTPS, :PROTOCOLS

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

        # Refuses every other option: a user who names a `ca` or a `verify_mode` relies on it.
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
        @serving = {}.compare_by_identity # fiber => Coupling, or false before the handshake
        @ended = Thread::Queue.new
        @waiting = Admission.new do |socket|
          FiberNames.within(NAME) { serve(socket, Fiber.current) }
        end
        @accepting = FiberNames.schedule("the server's accept, #{self}") { accept_all }
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
        deadline = seconds && (now + seconds)
        let_go
        within([HANDSHAKE, seconds].compact.min) || stop { |done| !done }
        @core.join(left(deadline)) && let_go # whose handshake ended meanwhile may hijack, too
        within(left(deadline))
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
      def_delegators :@binding, :close, :refuse, :waited_for?, :inherit, :io, :port,
        :backlog

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
        PROTOCOLS.find { |name| offered.include?(name) } or
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

      def left(deadline) = deadline && [deadline - now, 0].max

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # @return [Boolean] whether all have ended within so many seconds
      def within(seconds)
        return @serving.empty? if seconds && !seconds.positive?

        ::Timeout.timeout(seconds) { @ended.pop until @serving.empty? }
        true
      rescue ::Timeout::Error
        false
      end

      # As without TLS, a hijacked socket is the application's: it keeps no server from ending. It
      # works as long as the loop runs, and does not keep that running.
      def let_go
        hijacked = @serving.select { |_, coupling| coupling && coupling.transport.detached? }
        hijacked.each do |fiber, coupling|
          forget(fiber)
          [fiber, *coupling.receiver].each do |one|
            Fiber.scheduler.__send__(:idle_begin, one) if one.alive?
          end
        end
      end

      def forget(fiber)
        return unless @serving.key?(fiber)

        @serving.delete(fiber)
        @open.pop
        @ended << true if @serving.empty? && @ended.empty? # nobody takes it before a stop
      end

      def serve(socket, fiber)
        @serving[fiber] = false
        secure = OpenSSL::SSL::SSLSocket.new(socket, @context).tap { |tls| tls.sync_close = true }
        ::Timeout.timeout(@options[:header_timeout]) { secure.accept }
        couple(secure, socket.remote_address.ip_address, fiber)
      rescue ::Timeout::Error
        @core.count_timeout
      rescue OpenSSL::SSL::SSLError, SystemCallError, IOError, FiberError => error
        explain(socket) if error.message.include?("http request") # so OpenSSL calls it
        # Otherwise it is no HTTPS client, or there is no room for the second fiber.
      ensure
        socket.close unless socket.closed?
        forget(fiber)
      end

      # Whoever has typed http:// for https:// learns why there is no page, as from nginx.
      def explain(socket)
        socket.write_nonblock(NOT_HTTPS)
        socket.close_write
        ::Timeout.timeout(LINGER) { loop { socket.readpartial(PART_BYTES) } }
      rescue ::Timeout::Error, SystemCallError, IOError
        nil # it has closed, or had its time
      end
    end
  end
end

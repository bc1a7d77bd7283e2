# frozen_string_literal: true

require "openssl"
require "socket"
require "uri"

module NB
  class Server
    # `ssl://host:port?cert=path&key=path`: TLS through the openssl gem. A fiber per connection
    # decrypts in front of the server, joined to it by a pair of sockets: right for development and
    # for machines without a proxy, not for ten thousand connections.
    #
    # @api private
    class Tls
      # One TLS record at most.
      PART_BYTES = 16_384
      # Each connection is the client's socket and the pair that joins it to the server.
      FDS_EACH = 3
      # How long to leave connections with the kernel when it is out of fds or memory.
      RETRY = 0.1

      # @raise [ArgumentError]
      def self.parse(address)
        uri = URI.parse(address)
        files = URI.decode_www_form(uri.query.to_s).to_h
        missing = %w[cert key].reject { |name| File.file?(files[name].to_s) }
        raise ArgumentError, "bind: #{address}: no file for #{missing.join(" and ")}" if
          missing.any?

        fd = files["fd"]
        listener = fd ? Binding.new(:fd, fd: Integer(fd)) :
                        Binding.new(:tcp, host: uri.hostname, port: uri.port || 443)
        new(listener, files["cert"], files["key"])
      end

      def initialize(binding, certificate, key)
        @binding = binding
        @files = {"cert" => certificate, "key" => key}
        @context = OpenSSL::SSL::SSLContext.new
        chain = OpenSSL::X509::Certificate.load_file(certificate)
        @context.add_certificate(chain.first, OpenSSL::PKey.read(File.read(key)), chain.drop(1))
        @context.min_version = OpenSSL::SSL::TLS1_2_VERSION
        @context.alpn_select_cb = ->(protocols) {
 protocols.include?("http/1.1") ? "http/1.1" : nil }
      end

      # Opens the listener.
      # @return [self]
      def open(reuse_port: false)
        @binding.open(reuse_port: reuse_port)
        self
      end

      # Accepts on the core's loop, a fiber per connection.
      # @param connections [Integer] open at most
      # @return [void]
      def attach(core, connections)
        @core = core
        most = [connections, Options.connections_by_fd_limit / FDS_EACH].min
        @open = Thread::SizedQueue.new(most)
        @accepting = Fiber.schedule { accept_all }
      end

      # @return [void]
      def close = @binding.close
      # @return [void]
      def refuse = @binding.refuse
      # @return [IO] the listening socket
      def io = @binding.io

      # @return [String] see {Binding#inheritance}
      def inheritance
        "ssl://inherited?#{URI.encode_www_form(@files.merge("fd" => @binding.io.fileno))}"
      end

      # @return [Integer, nil]
      def port = @binding.port
      # @return [String] the address as a URL
      def to_s = @binding.to_s.sub("tcp:", "ssl:")

      private

      # As the plain listeners: beyond the limit, or without fds, connections stay with the kernel.
      def accept_all(listener = @binding.io)
        loop do
          Fiber.scheduler.idle { @open << true }
          socket, = Fiber.scheduler.idle { listener.accept }
          Fiber.schedule { serve(socket) }
        rescue Errno::ECONNABORTED
          @open.pop
        rescue Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM
          @open.pop
          Fiber.scheduler.idle { sleep RETRY }
        end
      rescue IOError, Errno::EBADF
        nil # the listener was closed: the server drains
      end

      def serve(socket)
        secure = OpenSSL::SSL::SSLSocket.new(socket, @context)
        secure.sync_close = true
        ::Timeout.timeout(15) { secure.accept }
        join(secure, socket.remote_address.ip_address)
      rescue OpenSSL::SSL::SSLError, SystemCallError, IOError, ::Timeout::Error
        nil # no client of ours
      ensure
        socket.close unless socket.closed?
        @open.pop
      end

      # Carries both ways until the server has ended its side, or either is broken.
      def join(secure, address)
        inside, outside = UNIXSocket.pair
        inside.autoclose = false # the core's
        @core.adopt(inside.fileno, true, address)
        Fiber.schedule { pump(secure, outside) && outside.close_write }
        pump(outside, secure) && secure.close
      ensure
        [secure, outside].compact.each { |io| io.close unless io.closed? }
      end

      # Until from ends. True: to can still be written.
      def pump(from, to)
        loop { to.write(from.readpartial(PART_BYTES)) }
      rescue EOFError
        true
      rescue OpenSSL::SSL::SSLError, SystemCallError, IOError
        [from, to].each { |io| io.close unless io.closed? }
        false
      end
    end
  end
end

# frozen_string_literal: true

require "socket"

module NB
  class Server
    # One place to listen at: parses the address, opens the listener, gives it to the core.
    #
    # @api private
    class Binding
      BACKLOG = 4096 # the kernel lowers it to net.core.somaxconn
      TCP = %r{\Atcp://(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/\[\]]+)):(?<port>\d+)\z}
      private_constant :TCP

      # @param address [String]
      # @return [Binding]
      # @raise [ArgumentError]
      def self.parse(address)
        case address
        when TCP then new(:tcp, host: $~[:v6] || $~[:host], port: Integer($~[:port], 10))
        when %r{\Aunix://(?<path>.+)\z} then new(:unix, path: $~[:path])
        when %r{\Afd://(?<fd>\d+)(?:#(?<path>.+))?\z}
          new(:fd, fd: Integer($~[:fd], 10), path: $~[:path])
        when %r{\Assl://}
          require_relative "tls"
          Tls.parse(address)
        else
          raise ArgumentError, "bind: expected tcp://host:port, tcp://[v6]:port, unix://path, " \
                               "ssl://host:port?cert=…&key=… or fd://3, got: #{address.inspect}"
        end
      end

      # @return [Symbol, IO] :tcp or :unix; the listening socket once open
      attr_reader :kind, :io

      # @param path [String, nil] of a UNIX socket; beside an fd: we made it, and remove it
      def initialize(kind, host: nil, port: nil, path: nil, fd: nil)
        @kind = kind
        @host = host
        @port = port
        @path = path
        @fd = fd
      end

      # Opens the listener unless it is open.
      def open(reuse_port: false)
        @io ||= case @kind
                when :tcp then open_tcp(reuse_port)
                when :unix then open_unix
                when :fd then adopt
        end
        remember
        self
      end

      # Gives the listener to the core of a started server.
      def attach(core, _connections)
        core.listen(@io.fileno, local?, false, @port || 0)
      end

      # Closes the listener; removes the file of a UNIX socket that it made.
      # @return [void]
      def close
        return unless @io

        refuse
        @io.close unless @io.closed?
        File.unlink(@path) if @kind == :unix && @owner == Process.pid && File.socket?(@path)
        @io = nil
      end

      # From now on the kernel lets in one more at most, so that all who wait can be accepted before
      # {#close} would reset them. Only the process that opened the listener may say so: one that
      # was handed it shares it with others, who go on.
      # @return [void]
      def refuse
        @io.listen(0) if @opener == Process.pid && !@io.closed?
      end

      # @return [Integer, nil] the TCP port in use
      attr_reader :port

      def local? = @kind == :unix

      # @return [String] where a process that inherits the open listener binds
      def inheritance = "fd://#{@io.fileno}#{"##{@path}" if @owner}"

      # @return [String] the address as a URL
      def to_s = @name || (@kind == :unix ? "unix://#{@path}" : "tcp://#{@host}:#{@port}")

      private

      # What is known once it is open stays known when it is closed.
      def remember
        address = @io.local_address
        if address.unix?
          @kind = :unix
          @path ||= address.unix_path
          @name = "unix://#{@path}"
        else
          @port = address.ip_port
          @name = "tcp://#{address.ipv6? ? "[#{address.ip_address}]" : address.ip_address}:#{@port}"
        end
      end

      def open_tcp(reuse_port)
        address = Addrinfo.tcp(@host, @port)
        socket = Socket.new(address.afamily, Socket::SOCK_STREAM, 0)
        socket.setsockopt(:SOCKET, :REUSEADDR, true)
        socket.setsockopt(:SOCKET, :REUSEPORT, true) if reuse_port
        socket.setsockopt(:IPV6, :V6ONLY, true) if address.ipv6? && @host != "::"
        listen(socket, address)
      end

      def adopt
        @owner = Process.pid if @path
        Socket.for_fd(@fd).tap { |io| io.autoclose = true }
      end

      def open_unix
        remove_stale_socket
        @owner = Process.pid
        listen(Socket.new(:UNIX, :STREAM, 0), Addrinfo.unix(@path))
      end

      def listen(socket, address)
        socket.bind(address)
        socket.listen(BACKLOG)
        @opener = Process.pid
        socket
      rescue SystemCallError
        socket.close
        raise
      end

      # A socket file whose server has died can be bound again; one that answers is in use.
      def remove_stale_socket
        return unless File.socket?(@path)

        UNIXSocket.new(@path).close
        raise Errno::EADDRINUSE, "unix://#{@path}"
      rescue Errno::ECONNREFUSED
        File.unlink(@path)
      end
    end
  end
end

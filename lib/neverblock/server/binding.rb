# frozen_string_literal: true

require "socket"
require_relative "socket_file"

module NB
  class Server
    # One listening address: parses it, opens the listener, and passes it to the core.
    #
    # @api private
    class Binding
      BACKLOG = 4096 # unless told; the kernel lowers it to net.core.somaxconn
      TCP = %r{\Atcp://(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/\[\]]+)):(?<port>\d+)\z}
      # The fields of a line (man 5 proc): address, references, protocol, flags, type, state, inode
      # and path.
      UNIX_SOCKETS = "/proc/net/unix"
      # The state of an established connection that is not accepted yet: SS_CONNECTING in
      # linux/net.h.
      NOT_ACCEPTED = "02"
      private_constant :TCP, :UNIX_SOCKETS, :NOT_ACCEPTED

      # @param address [String] without TLS: {Address.parse} knows both
      # @return [Binding]
      # @raise [ArgumentError]
      def self.parse(address)
        case address
        when TCP then new(:tcp, host: host($~), port: port($~[:port], address))
        when %r{\Aunix://(?<path>[^?\0]+)\z} then new(:unix, path: path($~[:path]))
        when %r{\Afd://(?<fd>\d{1,9})(?<ours>#(?<path>.*))?\z}
          new(:fd, fd: Integer($~[:fd], 10), path: path($~[:path]), ours: !$~[:ours].nil?)
        else
          raise ArgumentError, "bind: expected tcp://host:port, tcp://[v6]:port, unix://path " \
                               "(without options), ssl://host:port?cert=…&key=… or fd://3, got: " \
                               "#{address.inspect}"
        end
      end

      # To Puma (and TCPServer) "*" means all addresses, to a look-up the loopback.
      def self.host(match) = match[:v6] || match[:host].sub(/\A\*\z/, "0.0.0.0")

      # @return [Integer]
      # @raise [ArgumentError]
      def self.port(text, address)
        port = Integer(text, 10)
        return port if port <= 65_535

        raise ArgumentError, "bind: a port is a number from 0 to 65535, got: #{address}"
      end

      # An abstract name, which is no file's, begins with a NUL (man 7 unix). People and systemd
      # write an @.
      def self.path(text) = text&.start_with?("@") ? "\0#{text[1..]}" : text
      private_class_method :host, :port, :path

      # @return [Symbol, IO] :tcp or :unix; the listening socket once open
      attr_reader :kind, :io

      # @param path [String, nil] of a UNIX socket
      # @param ours [Boolean] whether this process itself opened the listener of the fd, before it
      #   became another program
      def initialize(kind, host: nil, port: nil, path: nil, fd: nil, ours: false) # rubocop:disable Metrics/ParameterLists
        @kind = kind
        @host = host
        @port = port
        @path = path
        @fd = fd
        @ours = ours
      end

      # Its port 0 stands for the port of the other, which is opened first.
      # @return [self]
      def beside(other)
        @beside = other
        self
      end

      # Opens the listener, unless it is open.
      # @param backlog [Integer, nil] connections that may wait; nil: {BACKLOG}, or as many as
      #   whoever opened the listener has said
      def open(backlog: nil, reuse_port: false)
        @backlog = backlog || BACKLOG
        @io ||= case @kind
                when :tcp then open_tcp(reuse_port)
                when :unix then open_unix
                when :fd then adopt(backlog)
        end
        remember
        self
      end

      # Passes the listener to the core of a started server.
      def attach(core, _options)
        core.listen(@io.fileno, local?, false, @port || 0)
      end

      # @return [Boolean] whether everything the kernel let in has been accepted; the core has its
      #   own such check
      def accept_rest = true
      # @return [Boolean] whether there is anything to wait for beside the core's connections: no
      def join(_seconds) = true
      # @return [void]
      def stop = nil

      # Closes the listener, and removes the file of a UNIX socket that it made.
      # @return [void]
      def close
        return unless @io

        refuse
        @io.close unless @io.closed?
        SocketFile.remove(@mark) if @opener == Process.pid
        @io = @mark = nil
      end

      # Makes the kernel refuse new connections, so everything that waits can be accepted before
      # {#close} would reset it. Only the process that opened the listener may do so: one that
      # inherited it shares it with others, which continue.
      # @return [void]
      def refuse
        return if @opener != Process.pid || @io.closed?

        local? ? @io.shutdown(:RD) : Core.refuse(@io.fileno)
      rescue SystemCallError
        @io.listen(0) # a kernel without such filters: it lets in at most one more
      end

      # The process that opened it is gone: {#refuse} and {#close} are now ours to do.
      # @return [void]
      def inherit = @opener &&= Process.pid

      # @return [Boolean] whether the kernel holds a connection that is not accepted yet
      def waited_for?
        return false unless IO.select([@io], nil, nil, 0)

        states = local? ? kernel_states : []
        states.empty? || states.include?(NOT_ACCEPTED)
      end

      # @return [Integer, nil] the TCP port in use
      # @return [Integer] how many connections may wait at the open listener, if the kernel agrees
      attr_reader :port, :backlog

      def local? = @kind == :unix

      # @return [String] the address for a process that inherits the open listener
      def inheritance = "fd://#{@io.fileno}#{"##{shown if local?}" if @opener}"

      # @return [String] the address as a URL
      def to_s = @name || (@kind == :unix ? "unix://#{shown}" : "tcp://#{@host}:#{@port}")

      private

      # The lines of a UNIX listener and of the connections to it. After {#refuse} the listener
      # always counts as readable, so these lines tell whether anybody waits. Empty if the kernel
      # does not list it.
      def kernel_states
        path = shown.b
        File.foreach(UNIX_SOCKETS, mode: "rb").filter_map do |line|
          columns = line.chomp.split(" ", 8)
          columns[5] if columns[7] == path
        end
      rescue SystemCallError
        []
      end

      # Keeps what is known only while the listener is open.
      def remember
        address = @io.local_address
        if address.unix?
          @kind = :unix
          @path ||= address.unix_path
          @mark ||= SocketFile.mark(@path)
          @name = "unix://#{shown}"
        else
          @port = address.ip_port
          @name = "tcp://#{address.ipv6? ? "[#{address.ip_address}]" : address.ip_address}:#{@port}"
        end
      end

      def shown = @path.start_with?("\0") ? "@#{@path[1..]}" : @path

      def look_up
        Addrinfo.tcp(@host, @port.zero? && @beside ? @beside.port : @port)
      rescue SocketError => error
        raise error.class, "#{@host}: #{error.message}"
      end

      def open_tcp(reuse_port)
        address = look_up
        socket = Socket.new(address.afamily, Socket::SOCK_STREAM, 0)
        socket.setsockopt(:SOCKET, :REUSEADDR, true)
        socket.setsockopt(:SOCKET, :REUSEPORT, true) if reuse_port
        socket.setsockopt(:IPV6, :V6ONLY, true) if address.ipv6? && @host != "::"
        listen(socket, address)
      end

      # A second listen(2) only changes the backlog.
      def adopt(backlog)
        @opener = Process.pid if @ours
        io = Socket.for_fd(@fd)
        listens = io.getsockopt(:SOCKET, :ACCEPTCONN).bool
        raise Errno::ENOTSOCK, "fd://#{@fd} does not listen" unless listens

        io.listen(@backlog) if backlog || @ours
        io.tap { io.autoclose = io.close_on_exec = true }
      rescue Errno::EBADF
        raise Errno::EBADF, "fd://#{@fd}"
      end

      def open_unix
        SocketFile.free(@path)
        listen(Socket.new(:UNIX, :STREAM, 0), Addrinfo.unix(@path))
      rescue Errno::EADDRINUSE
        raise Errno::EADDRINUSE, to_s # Ruby's own text has an abstract name in hexadecimal
      end

      def listen(socket, address)
        socket.bind(address)
        socket.listen(@backlog)
        @opener = Process.pid
        socket
      rescue SystemCallError
        socket.close
        raise
      end
    end
  end
end

# frozen_string_literal: true

require "socket"
require_relative "socket_file"

module NB
  class Server
    # One address of a {Control}: opens it, closes it, connects to it. It cannot be a name in the
    # abstract namespace (`@name`), which has no permissions.
    #
    # @api private
    class ControlAddress
      FORM = %r{\A(?:unix://(?<path>[^@].*)|
                  tcp://(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/\[\]]+)):(?<port>\d{1,5}))\z}x
      private_constant :FORM

      # @return [UNIXServer, TCPServer, nil] the open listener
      attr_reader :server

      # @param text [String] `unix://path` or `tcp://host:port`
      # @param name [String] of the option or argument, for the message
      # @raise [ArgumentError]
      def initialize(text, name = "control")
        match = (FORM.match(text.to_s) if text.to_s.valid_encoding?) or
          raise ArgumentError, "#{name}: must be unix://path or tcp://host:port, got: " \
                               "#{text.to_s.empty? ? '""' : text}"
        @path = match[:path]
        @host = match[:v6] || match[:host]
        @port = match[:port]&.to_i
        # The system would take the port modulo 65,536.
        raise ArgumentError, "#{name}: a port is a number from 0 to 65535, got: #{text}" if
          @port && @port > 65_535
      end

      # @return [Boolean] whether the file system decides who has access
      def local? = !@path.nil?

      # @return [Integer] the port of an open TCP socket
      def port = @server.local_address.ip_port

      # @param own [Boolean] see {SocketFile.free}
      # @return [void]
      # @raise [SystemCallError, SocketError] such as Errno::EADDRINUSE, which a path can cause, too
      def open(own: false)
        return @server = TCPServer.new(@host, @port) unless local?

        SocketFile.free(@path, own: own)
        @server = UNIXServer.new(@path)
        @mark = SocketFile.mark(@path)
      end

      # Removes the socket's file, unless another server has made one since.
      # @return [void]
      def remove_file = SocketFile.remove(@mark)

      # Closes the listener; its file stays.
      # @return [void]
      def forget = @server&.close

      # @return [UNIXSocket, TCPSocket] connected to the listener
      def connect = local? ? UNIXSocket.new(@path) : TCPSocket.new(@host, @port)
    end
  end
end

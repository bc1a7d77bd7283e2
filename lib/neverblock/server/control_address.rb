# frozen_string_literal: true

require "socket"
require_relative "socket_file"

module NB
  class Server
    # One address of a {Control}: opens it, closes it, asks it.
    #
    # @api private
    class ControlAddress
      FORM = %r{\A(?:unix://(?<path>.+)|
                  tcp://(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/\[\]]+)):(?<port>\d{1,5}))\z}x
      private_constant :FORM

      # @return [UNIXServer, TCPServer, nil] once it is open
      attr_reader :server

      # @param text [String] `unix://path` or `tcp://host:port`
      # @raise [ArgumentError]
      def initialize(text)
        match = FORM.match(text.to_s) or
          raise ArgumentError, "control: must be unix://path or tcp://host:port, got: #{text}"
        @path = match[:path]
        @host = match[:v6] || match[:host]
        @port = match[:port]&.to_i
        # The system would take what remains of it by 65,536.
        raise ArgumentError, "control: a port is a number from 0 to 65535, got: #{text}" if
          @port && @port > 65_535
      end

      # @return [Boolean] whether only those may ask whom the file system lets in
      def local? = !@path.nil?

      # @return [Integer] of a TCP socket that is open
      def port = @server.local_address.ip_port

      # @param own [Boolean] see {SocketFile.free}
      # @return [void]
      # @raise [SystemCallError, SocketError] such as Errno::EADDRINUSE, also for a path
      def open(own: false)
        return @server = TCPServer.new(@host, @port) unless local?

        SocketFile.free(@path, own: own)
        @server = UNIXServer.new(@path)
        @inode = inode
      end

      # Removes the socket's file, unless another server has made one since.
      # @return [void]
      def close
        forget
        File.unlink(@path) if local? && @inode && inode == @inode
      end

      # The file is another process's.
      # @return [void]
      def forget = @server&.close

      # @return [UNIXSocket, TCPSocket] to those who listen there
      def connect = local? ? UNIXSocket.new(@path) : TCPSocket.new(@host, @port)

      private

      def inode = File.socket?(@path) && File.stat(@path).ino
    end
  end
end

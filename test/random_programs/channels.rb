# frozen_string_literal: true

require "io/console"
require "pty"
require "socket"
require "support/certificates"

module RandomPrograms
  # What bytes go through from one worker to another. Each has a writer, a reader, and says whether
  # Ruby may buffer what the reader reads: then sysread and recv are not allowed.
  module Channels
    Channel = Struct.new(:kind, :writer, :reader, :buffered, keyword_init: true)

    # Both directions of a socket are two channels, so two workers may use one IO at a time.
    KINDS = %i[pipe unix tcp tls popen pty queue sized].freeze

    class << self
      # @param kind [Symbol] one of KINDS
      # @param random [Random]
      # @return [Array<Channel>] one, or one for each direction
      def open(kind, random)
        send(kind).map do |writer, reader|
          Channel.new(kind: kind, writer: writer, reader: reader, buffered: random.rand(3) > 0)
        end
      end

      private

      def pipe
        reader, writer = IO.pipe
        [[writer, reader]]
      end

      def unix = both_ways(*UNIXSocket.pair)

      def tcp
        server = TCPServer.new("127.0.0.1", 0)
        client = TCPSocket.new("127.0.0.1", server.addr[1])
        both_ways(client, server.accept)
      ensure
        server&.close
      end

      # One direction: OpenSSL's sockets are for one thread at a time.
      def tls
        one, other = UNIXSocket.pair
        server = Certificates.server(one)
        accepting = Thread.new { server.accept }
        client = Certificates.client(other).connect
        accepting.join
        [[server, client]]
      end

      def both_ways(one, other) = [[one, other], [other, one]]

      # What is written comes back from the same IO.
      def popen
        io = IO.popen(["cat"], "r+")
        [[io, io]]
      end

      def pty
        reader, writer = PTY.open
        writer.raw!
        [[writer, reader]]
      end

      def queue = Thread::Queue.new.then { |queue| [[queue, queue]] }
      def sized = Thread::SizedQueue.new(1).then { |queue| [[queue, queue]] }
    end
  end
end

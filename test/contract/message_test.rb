# frozen_string_literal: true

require_relative "../support/contract"

# recv, send, recvmsg, sendmsg, recvfrom and their *_nonblock forms, on every socket class (A1).
module MessageContract
  # On a connected pair, stream or datagram.
  module Receiving
    def self.define(base)
      base.contract "recv waits for a message" do
        client, server = pair
        message = parked { server.recv(100) }
        assert_equal 5, client.send("hello", 0)
        assert_equal "hello", message.value
      end

      base.contract "recv with MSG_PEEK leaves the message" do
        client, server = pair
        message = parked { server.recv(100, Socket::MSG_PEEK) }
        client.send("hello", 0)
        assert_equal "hello", message.value
        assert_equal "hello", server.recv(100)
      end

      base.contract "recv_nonblock does not wait" do
        client, server = pair
        assert_raises(IO::WaitReadable) { server.recv_nonblock(100) }
        assert_equal :wait_readable, server.recv_nonblock(100, exception: false)
        client.send("hello", 0)
        assert server.wait_readable(1)
        assert_equal "hello", server.recv_nonblock(100)
      end

      base.contract "recvmsg waits for a message" do
        client, server = pair
        message = parked { server.recvmsg(100).first }
        assert_equal 5, client.sendmsg("hello")
        assert_equal "hello", message.value
      end

      base.contract "recvmsg_nonblock and sendmsg_nonblock do not wait" do
        client, server = pair
        assert_raises(IO::WaitReadable) { server.recvmsg_nonblock }
        assert_equal :wait_readable, server.recvmsg_nonblock(exception: false)
        assert_equal 5, client.sendmsg_nonblock("hello")
        assert server.wait_readable(1)
        assert_equal "hello", server.recvmsg_nonblock.first
      end

      base.contract "recvfrom waits for a message" do
        client, server = pair
        message = parked { server.recvfrom(100).first }
        client.send("hello", 0)
        assert_equal "hello", message.value
      end

      base.contract "many messages go through in order" do
        client, server = pair
        received = parked { Array.new(200) { server.recv(3) } }
        sent = Array.new(200) { |i| format("%03d", i) }
        sent.each { |message| client.send(message, 0) }
        assert_equal sent, received.value
      end
    end
  end

  # send and sendmsg on a stream whose peer reads late.
  module Sending
    def self.define(base)
      base.contract "send and sendmsg wait for room" do
        client, server = pair
        sent = parked do
          Array.new(100) { client.send("x" * 50_000, 0) + client.sendmsg("y") }.sum
        ensure
          client.close_write
        end
        got = server.read.bytesize
        assert_equal sent.value, got
        assert_operator got, :>, 100_000
      end

      base.same_as_threads "recv at the end of the stream" do
        client, server = pair
        message = parked { server.recv(10).inspect }
        client.close
        message.value
      end

      base.contract "shutdown ends the peer's reading, not its writing" do
        client, server = pair
        all = parked { server.read }
        client.write("last words")
        client.shutdown(Socket::SHUT_WR)
        assert_equal "last words", all.value
        server.write("answer")
        assert_equal "answer", client.readpartial(10)
      end
    end
  end

  # Connected datagram pairs.
  module Datagrams
    module_function

    def udp(contract)
      one, two = contract.keep(UDPSocket.new, UDPSocket.new)
      [one, two].each { |socket| socket.bind("127.0.0.1", 0) }
      one.connect("127.0.0.1", two.addr[1])
      two.connect("127.0.0.1", one.addr[1])
      [one, two]
    end

    def udp6(contract)
      one, two = contract.keep(UDPSocket.new(:INET6), UDPSocket.new(:INET6))
      [one, two].each { |socket| socket.bind("::1", 0) }
      one.connect("::1", two.addr[1])
      two.connect("::1", one.addr[1])
      [one, two]
    end

    def socket_udp(contract)
      one, two = contract.keep(Socket.new(:INET, :DGRAM), Socket.new(:INET, :DGRAM))
      [one, two].each { |socket| socket.bind(Addrinfo.udp("127.0.0.1", 0)) }
      one.connect(two.local_address)
      two.connect(one.local_address)
      [one, two]
    end

    def unix(contract) = contract.keep(*UNIXSocket.pair(:DGRAM))
    def seqpacket(contract) = contract.keep(*Socket.pair(:UNIX, :SEQPACKET))
  end

  PAIRS = {
    "UDPSocket" => Datagrams.method(:udp), "UDPSocket v6" => Datagrams.method(:udp6),
    "Socket udp" => Datagrams.method(:socket_udp), "UNIXSocket dgram" => Datagrams.method(:unix),
    "Socket seqpacket" => Datagrams.method(:seqpacket), **Streams::SOCKETS
  }.freeze

  PAIRS.each do |name, maker|
    const_set("#{name.gsub(/\W/, "")}Test", Class.new(Contract) do
      define_method(:pair) { maker.call(self) }
      Receiving.define(self)
      Sending.define(self) if Streams::SOCKETS.key?(name)
    end)
  end
end

# frozen_string_literal: true

require_relative "../support/contract"
require_relative "../support/ports"

# What only datagram sockets do: unconnected sends, senders' addresses, ancillary data.
class DatagramTest < Contract
  contract "UDP recvfrom tells who sent" do
    server, client = keep(UDPSocket.new, UDPSocket.new)
    server.bind("127.0.0.1", 0)
    client.bind("127.0.0.1", 0)
    received = parked { server.recvfrom(10) }
    client.send("hi", 0, "127.0.0.1", server.addr[1])
    message, from = received.value
    assert_equal ["hi", client.addr[1]], [message, from[1]]
  end

  contract "UDP recvfrom_nonblock does not wait" do
    server, client = keep(UDPSocket.new, UDPSocket.new)
    server.bind("127.0.0.1", 0)
    assert_raises(IO::WaitReadable) { server.recvfrom_nonblock(10) }
    assert_equal :wait_readable, server.recvfrom_nonblock(10, exception: false)
    client.send("hi", 0, "127.0.0.1", server.addr[1])
    assert server.wait_readable(1)
    assert_equal "hi", server.recvfrom_nonblock(10).first
  end

  contract "Socket recvfrom and sendmsg with addresses" do
    server, client = keep(Socket.new(:INET, :DGRAM), Socket.new(:INET, :DGRAM))
    server.bind(Addrinfo.udp("127.0.0.1", 0))
    client.bind(Addrinfo.udp("127.0.0.1", 0))
    received = parked { server.recvfrom(10) }
    client.sendmsg("hi", 0, server.local_address)
    message, from = received.value
    assert_equal ["hi", client.local_address.ip_port], [message, from.ip_port]
  end

  contract "an empty datagram arrives" do
    server, client = keep(UDPSocket.new, UDPSocket.new)
    server.bind("127.0.0.1", 0)
    received = parked { server.recvfrom(10).first }
    client.send("", 0, "127.0.0.1", server.addr[1])
    assert_equal "", received.value
  end

  contract "a refused datagram raises on the next receive" do
    client = keep(UDPSocket.new)
    client.connect("127.0.0.1", Ports.free)
    client.send("anyone?", 0)
    assert_raises(Errno::ECONNREFUSED) { client.recv(10) }
  end

  contract "UNIX send_io and recv_io hand over a file" do
    one, two = keep(*UNIXSocket.pair)
    reader, writer = keep(*IO.pipe)
    received = parked { two.recv_io }
    one.send_io(writer)
    copy = keep(received.value)
    copy.syswrite("through the copy")
    assert_equal "through the copy", reader.readpartial(100)
  end

  contract "UNIX recvmsg takes ancillary data" do
    one, two = keep(*UNIXSocket.pair)
    reader, writer = keep(*IO.pipe)
    received = parked { two.recvmsg(10, scm_rights: true) }
    one.sendmsg("x", 0, nil, Socket::AncillaryData.unix_rights(writer))
    message, _, _, *ancillary = received.value
    copy = keep(ancillary.first.unix_rights.first)
    copy.syswrite("y")
    assert_equal %w[x y], [message, reader.readpartial(1)]
  end

  contract "Socket.udp_server_loop_on serves while others run" do
    sockets = Socket.udp_server_sockets("127.0.0.1", 0)
    keep(*sockets)
    port = sockets.first.local_address.ip_port
    serving = strand do
      Socket.udp_server_loop_on(sockets) do |message, source|
        source.reply(message.upcase)
        break
      end
    end
    client = keep(UDPSocket.new)
    client.connect("127.0.0.1", port)
    client.send("loud", 0)
    assert_equal "LOUD", client.recv(10)
    serving.value
  end
end

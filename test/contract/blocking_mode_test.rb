# frozen_string_literal: true

require "io/nonblock"
require_relative "../support/contract"

# Files in blocking mode: sockets that another program has made or that were told so, terminals,
# FIFOs, standard input and output. The peer is a thread, which answers even if the loop stands
# still; the ticker tells.
class BlockingModeTest < Contract
  RECEIVES = {
    "recv" => ->(socket) { socket.recv(3) }, "recvfrom" => ->(socket) { socket.recvfrom(3).first },
    "recvmsg" => ->(socket) { socket.recvmsg(3).first },
    "recv and MSG_PEEK" => ->(socket) { socket.recv(3, Socket::MSG_PEEK) },
    "gets" => ->(socket) { socket.gets("c") }, "sysread" => ->(socket) { socket.sysread(3) }
  }.freeze
  SENDS = {
    "send" => ->(socket, bytes) { socket.send(bytes, 0) },
    "sendmsg" => ->(socket, bytes) { socket.sendmsg(bytes) },
    "write" => ->(socket, bytes) { socket.write(bytes) }
  }.freeze
  WHOLES = {
    "recv" => ->(socket, flags) { socket.recv(6, flags) },
    "recv into a buffer" => ->(socket, flags) { socket.recv(6, flags, +"old") },
    "recvfrom" => ->(socket, flags) { socket.recvfrom(6, flags).first },
    "recvmsg" => ->(socket, flags) { socket.recvmsg(6, flags).first }
  }.freeze
  MEGABYTE = ("0123456789abcdef" * 65_536).freeze

  RECEIVES.each do |name, receive|
    contract "#{name} of a stream socket waits" do
      near, far = blocking(*UNIXSocket.pair)
      peer = later { far.write("abc") }
      assert_equal "abc", receive.call(near)
      peer.join
    end

    contract "#{name} of a datagram socket waits" do
      near, far = blocking(*UNIXSocket.pair(:DGRAM))
      peer = later { far.write("abc") }
      assert_equal "abc", receive.call(near)
      peer.join
    end
  end

  SENDS.each do |name, send|
    contract "#{name} waits for room", gap: 0.060 do
      near, far = blocking(*UNIXSocket.pair)
      peer = later { far.read(MEGABYTE.bytesize) == MEGABYTE }
      sent = 0
      sent += send.call(near, MEGABYTE.byteslice(sent..)) until sent == MEGABYTE.bytesize
      assert peer.value
    end
  end

  SENDS.merge("syswrite" => ->(io, bytes) { io.syswrite(bytes) }).each do |name, send|
    contract "#{name} takes the whole message", gap: 0.060 do
      near, far = blocking(*UNIXSocket.pair)
      peer = later { far.read(MEGABYTE.bytesize) == MEGABYTE }
      assert_equal MEGABYTE.bytesize, send.call(near, MEGABYTE)
      assert peer.value
      refute_predicate near, :nonblock? # other processes may share the mode
    end
  end

  contract "syswrite to a pipe takes the whole message", gap: 0.060 do
    reader, writer = blocking(*IO.pipe)
    peer = later { reader.read(MEGABYTE.bytesize) == MEGABYTE }
    assert_equal MEGABYTE.bytesize, writer.syswrite(MEGABYTE)
    assert peer.value
  end

  contract "syswrite tells what was taken before the reader closed" do
    reader, writer = blocking(*IO.pipe)
    peer = later { reader.close }
    assert_operator writer.syswrite(MEGABYTE), :<, MEGABYTE.bytesize
    assert_raises(Errno::EPIPE) { writer.syswrite("more") }
    peer.join
  end

  WHOLES.each do |name, receive|
    contract "#{name} with MSG_WAITALL waits for all" do
      near, far = blocking(*UNIXSocket.pair)
      peer = later { %w[ab cd efg].each { |part| far.write(part) && sleep(0.01) } }
      assert_equal "abcdef", receive.call(near, Socket::MSG_WAITALL)
      assert_equal "g", near.recv(9)
      peer.join
    end

    contract "#{name} with MSG_WAITALL ends with the stream" do
      near, far = blocking(*UNIXSocket.pair)
      peer = later { far.write("ab") && far.close }
      assert_equal "ab", receive.call(near, Socket::MSG_WAITALL)
      peer.join
    end
  end

  contract "MSG_WAITALL | MSG_PEEK waits for all, and leaves them there" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    far = keep(TCPSocket.new("127.0.0.1", server.local_address.ip_port))
    near, = blocking(server.accept)
    flags = Socket::MSG_WAITALL | Socket::MSG_PEEK
    WHOLES.each_value do |receive|
      peer = later { %w[ab cd ef].each { |part| far.write(part) && sleep(0.01) } }
      assert_equal "abcdef", receive.call(near, flags)
      assert_equal "abcdef", near.read(6)
      peer.join
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.02) { near.recv(1, flags) } }
    far.write("x")
    assert_equal "x", near.recv(1)
  end

  contract "UDP recvfrom waits" do
    server, client = blocking(UDPSocket.new, UDPSocket.new)
    server.bind("127.0.0.1", 0)
    peer = later { client.send("hi", 0, "127.0.0.1", server.local_address.ip_port) }
    assert_equal "hi", server.recvfrom(10).first
    peer.join
  end

  # The kernel drops the first SYN, because the queue is full, and takes the next, a second later.
  contract "connect waits" do
    server = keep(Socket.new(:INET, :STREAM))
    server.bind(Addrinfo.tcp("127.0.0.1", 0))
    server.listen(0)
    Array.new(3) { keep(Socket.new(:INET, :STREAM)) }.each do |filling|
      filling.connect_nonblock(server.local_address, exception: false)
    end
    peer = later { 2.times { keep(server.accept.first) } }
    client = blocking(Socket.new(:INET, :STREAM))
    assert_equal 0, client.connect(server.local_address)
    refute_predicate client, :nonblock?
    peer.join
  end

  contract "connect of a UNIX socket waits for room, too", gap: nil do
    Dir.mktmpdir("nb") do |folder|
      server = keep(UNIXServer.new("#{folder}/socket"))
      server.listen(0)
      keep(UNIXSocket.new(server.path))
      peer = later { keep(server.accept) }
      assert_equal 0, blocking(Socket.new(:UNIX, :STREAM)).connect(server.local_address)
      peer.join
    end
  end

  contract "recv_io waits" do
    near, far = blocking(*UNIXSocket.pair)
    reader, writer = keep(*IO.pipe)
    peer = later { far.send_io(writer) }
    keep(near.recv_io).syswrite("x")
    assert_equal "x", reader.read(1)
    peer.join
    refute_predicate near, :nonblock? # other processes may share the mode
    refute_predicate far, :nonblock?
  end

  contract "recv_io of two keeps the mode" do
    near, far = blocking(*UNIXSocket.pair)
    received = Array.new(2) { parked { near.recv_io } }
    2.times { far.send_io($stdout) }
    keep(*received.map(&:value))
    refute_predicate near, :nonblock?
    refute_predicate far, :nonblock?
  end

  %i[accept sysaccept].each do |name|
    contract "two strands wait in #{name} of an inherited server", gap: 0.040 do
      port, server = inherited_server
      peer = later { 2.times { TCPSocket.new("127.0.0.1", port).close } }
      accepted = Array.new(2) { strand { server.public_send(name) } }
      sockets = accepted.map(&:value).map { |one| one.is_a?(IO) ? one : IO.for_fd(one) }
      assert_equal ["", ""], keep(*sockets).map(&:read)
      peer.join
    end
  end

  private

  def inherited_server
    made = TCPServer.new("127.0.0.1", 0)
    made.autoclose = false
    [made.local_address.ip_port, blocking(TCPServer.for_fd(made.fileno))]
  end
end

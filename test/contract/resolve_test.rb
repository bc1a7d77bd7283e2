# frozen_string_literal: true

require "net/http"
require_relative "../support/contract"

# Names: localhost, /etc/hosts, numbers, unknown ones; connecting by name.
class ResolveTest < Contract
  same_as_threads "Addrinfo.getaddrinfo of names and numbers" do
    [["localhost", 80], ["localhost", "80"], ["127.0.0.1", 80], ["::1", 80], [nil, 80], ["", 80],
[Socket.gethostname, 1]].map do |name, port|
      outcome { Addrinfo.getaddrinfo(name, port, nil, :STREAM).map(&:inspect_sockaddr).uniq }
    end
  end

  same_as_threads "Addrinfo.getaddrinfo with family, type, protocol and flags" do
    [outcome { Addrinfo.getaddrinfo("localhost", 80, :INET, :DGRAM).map(&:inspect) },
     outcome {
 Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM, Socket::IPPROTO_TCP).map(&:inspect) },
     outcome {
 Addrinfo.getaddrinfo(nil, 0, :INET6, :STREAM, 0, Socket::AI_PASSIVE).map(&:inspect) },
     outcome { Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM, 0, Socket::AI_NUMERICHOST) }]
  end

  # The hook sees the host only: Ruby asks it, and takes but numbers for the service afterwards.
  same_as_threads "ports by name wherever a port may stand" do
    [outcome { Socket.sockaddr_in("smtp", "::1") }, outcome { Socket.pack_sockaddr_in("x", "::1") },
     outcome { Addrinfo.tcp("127.0.0.1", "smtp").ip_port }, outcome { Addrinfo.udp("::1", "smtp") },
     UDPSocket.open { |socket| outcome { socket.connect("127.0.0.1", "domain") } },
     UDPSocket.open { |socket| outcome { socket.send("x", 0, "127.0.0.1", "domain") } },
     outcome { TCPSocket.new("127.0.0.1", 9, "127.0.0.1", "no-such-service") }.first,
     outcome { TCPServer.new("127.0.0.1", "no-such-service") }]
  end

  same_as_threads "services by name" do
    [outcome { Addrinfo.getaddrinfo("127.0.0.1", "http", nil, :STREAM).map(&:inspect_sockaddr) },
     outcome { Addrinfo.getaddrinfo("localhost", "https", nil, :STREAM).map(&:inspect_sockaddr) },
     outcome { Addrinfo.getaddrinfo("127.0.0.1", "no-such-service", nil, :STREAM) }]
  end

  same_as_threads "the canonical name" do
    Addrinfo.getaddrinfo("localhost", 80, :INET, :STREAM, 0, Socket::AI_CANONNAME).map(&:canonname)
  end

  same_as_threads "an unknown host, by every way" do
    unknown = "unknown.invalid"
    [outcome { Addrinfo.getaddrinfo(unknown, 80) }, outcome { TCPSocket.new(unknown, 80) },
     outcome { Socket.tcp(unknown, 80) }, outcome { TCPSocket.getaddress(unknown) },
     outcome { UDPSocket.new.tap { |u| keep(u) }.connect(unknown, 80) }, outcome {
 Addrinfo.tcp(unknown, 80) },
     outcome { IPSocket.getaddress(unknown) }, outcome { Socket.getaddrinfo(unknown, 80) },
     outcome { TCPServer.new(unknown, 0) }]
  end

  same_as_threads "error codes of Socket::ResolutionError", ruby: ">= 3.3" do
    [-> { Addrinfo.getaddrinfo("unknown.invalid", 80) }, -> {
 TCPSocket.new("unknown.invalid", 80) }].map do |call|
      call.call
    rescue Socket::ResolutionError => error
      error.error_code
    end
  end

  same_as_threads "a name that is not one" do
    ["bad name", "x" * 300, "\0", "a..b"].map { |name| outcome {
 Addrinfo.getaddrinfo(name, 80, nil, :STREAM) } }
  end

  CONNECTS = {
    "TCPSocket.new" => ->(port) { TCPSocket.new("localhost", port) },
    "TCPSocket.open with a local address" => ->(port) {
 TCPSocket.open("localhost", port, "127.0.0.1", 0) },
    "TCPSocket.new with connect_timeout" => ->(port) {
 TCPSocket.new("localhost", port, connect_timeout: 2) },
    "Socket.tcp" => ->(port) { Socket.tcp("localhost", port) },
    "Socket.tcp with timeouts" => ->(port) {
 Socket.tcp("localhost", port, connect_timeout: 2, resolv_timeout: 2) },
    "Addrinfo#connect" => ->(port) { Addrinfo.tcp("localhost", port).connect }
  }.freeze

  CONNECTS.each do |name, connect|
    contract "#{name} by name" do
      server = keep(TCPServer.new("127.0.0.1", 0))
      accepting = strand { keep(server.accept).write("hello") }
      assert_equal "hello", keep(connect.call(server.addr[1])).read(5)
      accepting.value
    end
  end

  contract "a refused connection by name" do
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("localhost", port) }
    assert_raises(Errno::ECONNREFUSED) { Socket.tcp("localhost", port) }
  end

  same_as_threads "the text of a refused connection" do
    port = 1
    [outcome { TCPSocket.new("localhost", port) }, outcome { Socket.tcp("localhost", port) },
     outcome { TCPSocket.new("127.0.0.1", port) }, outcome { Socket.tcp("127.0.0.1", port) },
     outcome { Net::HTTP.get(URI("http://localhost:#{port}/")) }]
  end

  contract "many resolve at once", gap: 0.060 do
    found = Array.new(100) { strand { Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).size } }
    assert_equal 1, found.map(&:value).uniq.size
  end

  contract "peeraddr, getnameinfo and remote_address without lookups" do
    client, = Streams.tcp(self)
    assert_equal "127.0.0.1", client.peeraddr(:numeric)[3]
    assert_equal "127.0.0.1", client.remote_address.ip_address
    assert_equal ["127.0.0.1", client.peeraddr[1].to_s],
                 client.remote_address.getnameinfo(Socket::NI_NUMERICHOST | Socket::NI_NUMERICSERV)
  end

  contract "getnameinfo with a lookup", gap: 0.060 do
    assert_equal "localhost", Addrinfo.tcp("127.0.0.1", 80).getnameinfo.first
  end
end

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

  # A crawler meets any bytes in a link.
  same_as_threads "names and services that are no text", gap: nil do
    name = "\xFF.invalid"
    [outcome { TCPSocket.new(name, 1) }, outcome { TCPSocket.new("127.0.0.1", "\xFF") },
     outcome { Addrinfo.tcp(name, 1) }, outcome { Addrinfo.tcp("127.0.0.1", "\xFF") },
     outcome { Net::HTTP.new(name, 1).start }, outcome { Socket.getaddrinfo(name, 1) },
     outcome { Socket.getaddrinfo("127.0.0.1".encode("UTF-16LE"), 1) }]
  end

  # From Ruby 3.3 on most of these are made by loop/repairs/numeric_names.rb. (No localhost of IPv6:
  # asked for that alone, getaddrinfo invents one.)
  %w[localhost 127.0.0.1 ::1 0:0::1].each do |host|
    # Any gap: for the rest Ruby makes a thread each.
    same_as_threads "Addrinfo.getaddrinfo of #{host}, asked for in every form", gap: nil do
      [nil, 80, "80", "080"].product(
        [nil, "AF_INET", Socket::PF_INET, :PF_UNSPEC, *(:INET6 if host.include?(":"))],
        [:STREAM, "SOCK_DGRAM", Socket::SOCK_STREAM], [nil, 0, Socket::IPPROTO_TCP]
      ).map do |asked|
        Addrinfo.getaddrinfo(host, *asked).map { |found| [found.inspect, found.marshal_dump] }
      rescue SocketError
        asked
      end
    end

    same_as_threads "Addrinfo.tcp and udp of #{host}" do
      [outcome { Addrinfo.tcp(host, 80).inspect }, outcome { Addrinfo.udp(host, "80").inspect },
       outcome { Addrinfo.tcp(host) }, outcome { Addrinfo.udp(host, 80, 1) }]
    end
  end

  same_as_threads "addr and peeraddr with and without names" do
    client, = Streams.tcp(self)
    [[], [nil], [true], [false], [:numeric], [:hostname], [:other], [1], [true, 1]].map do |how|
      %i[addr peeraddr].map do |name|
        outcome { client.public_send(name, *how).values_at(0, 2, 3) }
      end
    end + [outcome { keep(UDPSocket.new).addr }, outcome { keep(UDPSocket.new).peeraddr },
           client.tap(&:close).then { outcome { client.peeraddr } },
           outcome { Addrinfo.unix("/a").ip_address }, Addrinfo.udp("::1", 1).ip_address,
           *[Socket.sockaddr_in(1, "::1"), Addrinfo.udp("127.0.0.1", 2), Socket.sockaddr_un("/a"),
             "a", 1].map { |address| outcome { Socket.unpack_sockaddr_in(address) } }]
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

  # What is no plain number or family goes to getaddrinfo as it is, which says what is wrong.
  ["127.1", "::1", "localhost", "fe80::1%lo", "::1%none"].each do |host|
    same_as_threads "odd ports, families and types with #{host}", gap: nil, limit: 30 do
      port = [70_000, -1, 2**40, "70000", "-1", "80 ", "0x50", "none"].flat_map do |service|
        [outcome { Addrinfo.getaddrinfo(host, service, nil, :STREAM).map(&:inspect) },
         outcome { Addrinfo.tcp(host, service).inspect },
         outcome { Addrinfo.udp(host, service).inspect },
         outcome { Socket.getaddrinfo(host, service) },
         outcome { Socket.sockaddr_in(service, host) }]
      end
      rest = [nil, :INET, "AF_INET6", :UNIX, 99, "none"].product([nil, :DGRAM, :RAW, 77])
      rest.map! { |asked| outcome { Addrinfo.getaddrinfo(host, 80, *asked).map(&:inspect) } }
      [port, rest, outcome { Addrinfo.ip(host).inspect }, outcome { IPSocket.getaddress(host) }]
    end
  end

  # Link-local addresses belong to an interface, which is said behind a percent sign.
  # For glibc, this machine: a server listens at all its addresses.
  same_as_threads "the host *", gap: nil do
    server = outcome { keep(TCPServer.new("*", 0)) }
    port = server.is_a?(TCPServer) ? server.addr[1] : 1
    [outcome { server.addr.values_at(0, 3) },
     outcome { keep(TCPSocket.new("*", port)).peeraddr[3] },
     outcome { keep(Socket.tcp("*", port)).remote_address.ip_address },
     outcome { Addrinfo.tcp("*", 80).ip_address }, outcome { Addrinfo.ip("*").ip_address },
     outcome { Socket.getaddrinfo("*", 80, :INET, :STREAM) },
     outcome { keep(UDPSocket.new).tap { |one| one.bind("*", 0) }.addr[3] }]
  end

  same_as_threads "sockets of an address with a zone", gap: nil do
    host = Socket.getifaddrs.filter_map(&:addr).find(&:ipv6_linklocal?)&.ip_address || "::1%lo"
    udp = outcome { keep(UDPSocket.new(:INET6)) }
    [-> { keep(TCPServer.new(host, 0)).addr[0] }, -> { udp.bind(host, 0) },
     -> { udp.connect(host, 9) },
     -> {
 keep(TCPSocket.new(host, keep(TCPServer.new("::", 0)).addr[1])).peeraddr[0] }].map do |try|
      try.call
    rescue StandardError => error
      error.class # its message names a port that differs
    end
  end

  same_as_threads "an error names the service that was asked for" do
    [outcome { TCPSocket.new("127.0.0.1", 65_537) },
     outcome { TCPSocket.new("127.0.0.1", "tcpmux") },
     outcome { TCPSocket.new("127.0.0.1", 1, "192.0.2.1", 70_000) },
     outcome { TCPServer.new("192.0.2.1", "http") }, outcome { TCPServer.new("192.0.2.1", 70_000) }]
  end

  same_as_threads "the text of an error of TCPSocket.new", gap: nil do
    unknown = "unknown.invalid"
    [[unknown, 80], [unknown, 80, "127.0.0.1", 0], ["127.0.0.1", 80, unknown, 0],
     [unknown, "no-service"], ["localhost", "no-service"], ["300.0.0.1", 80], [nil, "no-service"],
     *["127.0.0.1", "::1", "", "<any>"].map { |host| [host, "no-service"] }]
      .map { |arguments| outcome { TCPSocket.new(*arguments) }.last }
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
    port = refusing_port
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("localhost", port) }
    assert_raises(Errno::ECONNREFUSED) { Socket.tcp("localhost", port) }
  end

  # From Ruby 3.4 on, plain threads name the address of localhost that has failed last: usually that
  # of IPv4, but that of IPv6 if its lookup took more than 50 ms.
  same_as_threads "the text of a refused connection" do
    port = 1
    [outcome { TCPSocket.new("localhost", port) }, outcome { Socket.tcp("localhost", port) },
     outcome { TCPSocket.new("127.0.0.1", port) }, outcome { Socket.tcp("127.0.0.1", port) },
     outcome { Net::HTTP.get(URI("http://localhost:#{port}/")) }]
      .map { |error, text| [error, text.sub("[::1]", "127.0.0.1")] }
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

# frozen_string_literal: true

require_relative "../support/contract"
require_relative "../support/ports"

# Connecting and accepting, by every class that can (A1).
class ConnectTest < Contract
  SERVERS = {
    "TCPServer" => [-> { TCPServer.new("127.0.0.1", 0) }, ->(s) {
 TCPSocket.new("127.0.0.1", s.local_address.ip_port) }],
    "TCPServer v6" => [-> { TCPServer.new("::1", 0) }, ->(s) {
 TCPSocket.new("::1", s.local_address.ip_port) }],
    "Socket" => [-> { Socket.tcp_server_sockets("127.0.0.1", 0).first },
                 ->(s) { Socket.tcp("127.0.0.1", s.local_address.ip_port) }],
    "Addrinfo" => [-> { Addrinfo.tcp("127.0.0.1", 0).listen }, ->(s) { s.local_address.connect }],
    "UNIXServer" => [-> { UNIXServer.new(unix_path) }, ->(s) { UNIXSocket.new(s.path) }],
    "Socket unix" => [-> { Socket.unix_server_socket(unix_path) },
                      ->(s) { Socket.unix(s.local_address.unix_path) }]
  }.freeze

  SERVERS.each do |name, (listen, connect)|
    contract "#{name} accept waits for a client" do
      server = keep(instance_exec(&listen))
      accepted = parked { peer_of(server.accept) }
      client = keep(instance_exec(server, &connect))
      peer = keep(accepted.value)
      peer.write("welcome\n")
      assert_equal "welcome\n", client.gets
    end

    contract "#{name} accept_nonblock does not wait" do
      server = keep(instance_exec(&listen))
      assert_raises(IO::WaitReadable) { server.accept_nonblock }
      assert_equal :wait_readable, server.accept_nonblock(exception: false)
      client = keep(instance_exec(server, &connect))
      assert server.wait_readable(1)
      keep(peer_of(server.accept_nonblock)).write("x")
      assert_equal "x", client.read(1)
    end

    contract "#{name} serves fifty clients at once" do
      server = keep(instance_exec(&listen))
      serving = strand do
        Array.new(50) { peer_of(server.accept) }.map { |peer| peer.tap { keep(peer).write("hi") } }
      end
      clients = Array.new(50) { strand { keep(instance_exec(server, &connect)).read(2) } }
      assert_equal ["hi"] * 50, clients.map(&:value)
      assert_equal 50, serving.value.size
    end
  end

  contract "a refused connection raises as in blocking Ruby" do
    port = refusing_port
    error = assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
    assert_match(/connect\(2\) for "?127.0.0.1/, error.message)
    assert_raises(Errno::ECONNREFUSED) { Socket.tcp("127.0.0.1", port) }
    assert_raises(Errno::ENOENT) { UNIXSocket.new("/nonexistent/socket") }
  end

  contract "connect_nonblock does not wait" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    client = keep(Socket.new(:INET, :STREAM))
    address = Addrinfo.tcp("127.0.0.1", server.addr[1])
    answer = client.connect_nonblock(address, exception: false)
    assert_includes [:wait_writable, 0], answer
    assert client.wait_writable(1)
    assert_includes [0, Errno::EISCONN], (client.connect_nonblock(address) rescue $!.class)
  end

  contract "connect_timeout ends a connect that never answers" do
    full = full_server
    error = assert_takes(0.05) do
      assert_raises(Errno::ETIMEDOUT, IO_TIMEOUT) do
        keep(*Array.new(3) { Socket.tcp("127.0.0.1", full.addr[1], connect_timeout: 0.05) })
      end
    end
    refute_empty error.message
  end

  contract "connect_timeout of TCPSocket.new, by address" do
    full = full_server
    assert_takes(0.05) do
      assert_raises(Errno::ETIMEDOUT, IO_TIMEOUT) do
        keep(*Array.new(3) { TCPSocket.new("127.0.0.1", full.addr[1], connect_timeout: 0.05) })
      end
    end
  end

  contract "a server closed while a connect is refused leaves no fd" do
    20.times do
      server = TCPServer.new("127.0.0.1", Ports.free)
      port = server.addr[1]
      server.close
      assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
    end
  end

  contract "TLS with a certificate not trusted fails on both sides" do
    server, client = keep(*UNIXSocket.pair)
    accepting = strand { outcome { Certificates.server(server).accept } }
    context = OpenSSL::SSL::SSLContext.new.tap { |c| c.verify_mode = OpenSSL::SSL::VERIFY_PEER }
    assert_raises(OpenSSL::SSL::SSLError) { Certificates.wrap(client, context).connect }
    client.close
    assert_equal OpenSSL::SSL::SSLError, accepting.value.first
  end

  same_as_threads "what a closed TLS socket raises" do
    client, server = keep(*UNIXSocket.pair)
    accepting = strand { Certificates.server(server).accept }
    socket = Certificates.client(client).connect
    accepting.value
    socket.close
    [-> { socket.sysread(1) }, -> { socket.syswrite("x") }].map { |use| outcome(&use).first.name }
  end

  contract "TLS connect_nonblock and accept_nonblock do not wait" do
    one, two = keep(*UNIXSocket.pair)
    client = Certificates.client(one)
    server = Certificates.server(two)
    assert_equal :wait_readable, server.accept_nonblock(exception: false)
    assert_raises(IO::WaitReadable) { client.connect_nonblock }
    accepting = strand { server.accept }
    client.connect
    accepting.value
    assert_equal "TLS", client.ssl_version[0, 3]
  end

  contract "TLS accept waits for a client that says nothing, and others run" do
    one, two = keep(*UNIXSocket.pair)
    accepting = parked { outcome { Certificates.server(two).accept } }
    sleep 0.02
    refute accepting.ended?
    one.close
    assert_equal OpenSSL::SSL::SSLError, accepting.value.first
  end

  IO_TIMEOUT = defined?(IO::TimeoutError) ? IO::TimeoutError : Errno::ETIMEDOUT

  # A server whose backlog is full: further connects get no answer.
  def full_server
    server = keep(TCPServer.new("127.0.0.1", 0))
    server.listen(0)
    keep(Socket.new(:INET, :STREAM)).connect(server.local_address)
    server
  end

  # accept of Socket answers [socket, address], of the others the socket.
  def peer_of(accepted) = accepted.is_a?(Array) ? accepted.first : accepted

  def unix_path
    File.join(Dir.tmpdir, "nb-#{Process.pid}-#{clock}").tap { |path| unlink_later(path) }
  end

  def unlink_later(path) = (@paths ||= []) << path

  def teardown
    @paths&.each { |path| File.unlink(path) if File.exist?(path) }
  end

  # Net::HTTP and Dalli look at them, and connect in another way if they are not Ruby's.
  contract "the parameters of a socket's constructor" do
    [TCPSocket, TCPServer].each do |one|
      constructor = one.instance_method(:initialize)
      assert_equal [[[:rest]], -1, nil],
                   [constructor.parameters, constructor.arity, constructor.source_location]
      assert one.private_method_defined?(:initialize)
    end
  end
end

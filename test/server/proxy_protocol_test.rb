# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require_relative "outside"
require_relative "../support/ports"
require "ipaddr"
require "tmpdir"

# The PROXY protocol: who the client is, said before its first byte.
class ServerProxyProtocolTest < Minitest::Test
  include ServerTest
  include Outside

  GET = "GET / HTTP/1.1\r\n#{HOST}\r\n".freeze
  SIGNATURE = "\r\n\r\n\0\r\nQUIT\n".b.freeze
  TEXT4 = "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"
  BINARY6 = [SIGNATURE, 0x21, 0x21, 36 + 4, IPAddr.new("2001:db8::1").hton, "\0" * 16, 1, 2, "\x04\0\x01x"]
            .pack("a*CCna*a*nna*").freeze

  def serve_proxied(**options, &app)
    serve(app || ->(env) { [200, {}, [env["REMOTE_ADDR"]]] }, proxy_protocol: true, **options)
  end

  def address(header)
    socket = connect
    socket.write(header, GET)
    read_response(socket).body
  end

  def test_the_application_sees_the_client_of_the_proxy
    serve_proxied
    assert_equal "192.0.2.1", address(TEXT4)
    assert_equal "2001:db8::1", address(BINARY6)
    assert_equal "127.0.0.1", address("PROXY UNKNOWN\r\n")
    assert_equal "127.0.0.1", address([SIGNATURE, 0x20, 0, 0].pack("a*CCn")) # the proxy's own check
  end

  def test_it_is_said_once_for_all_requests_of_a_connection
    serve_proxied
    socket = connect
    socket.write(TEXT4, GET, GET)
    socket.write(GET) # later
    3.times { assert_equal "192.0.2.1", read_response(socket).body }
    socket.write(TEXT4, GET)
    assert_equal 400, read_response(socket).status
  end

  def test_it_may_come_in_any_pieces
    serve_proxied
    [TEXT4, BINARY6].each do |header|
      bytes = header + GET
      [1, 5, header.bytesize, header.bytesize + 1].each do |size|
        socket = connect
        bytes.bytes.each_slice(size) do |part|
          socket.write(part.pack("C*"))
          sleep 0.0005
        end
        assert_equal 200, read_response(socket).status
      end
    end
  end

  def test_over_a_unix_socket_also_for_a_client_of_http_1_0
    Dir.mktmpdir do |folder|
      serve_proxied(bind: "unix://#{folder}/s")
      [GET, "GET / HTTP/1.0\r\n\r\n"].each do |request|
        UNIXSocket.open("#{folder}/s") do |socket|
          socket.write(TEXT4, request)
          socket.close_write
          assert_equal "192.0.2.1", Timeout.timeout(60) { socket.read }.lines.last
        end
      end
    end
  end

  # Whoever gets past the proxy must not name a client, nor be one.
  def test_who_does_not_say_it_is_refused
    access = StringIO.new
    serve_proxied(access_log: access)
    [GET, "PROXY TCP4 ::1 ::1 1 2\r\n#{GET}", "#{SIGNATURE}\x11\x11\0\0#{GET}", "\0" * 20].each do |bytes|
      assert_match(/\AHTTP\/1.1 400 .*the PROXY protocol is missing or malformed\n\z/m, exchange(bytes))
    end
    eventually { access.string.lines.size == 4 }
    access.string.each_line { |line| assert_match(/\A127.0.0.1 - - \[.*\] "- - -" 400 /, line) }
  end

  def test_who_never_says_it_is_let_go
    serve_proxied(header_timeout: 0.2)
    socket = connect
    socket.write(TEXT4[0, 10])
    assert_empty Timeout.timeout(60) { socket.read }
  end

  # Each client has an address of its own, and HAProxy keeps connections to the server.
  def test_haproxy_says_it_in_both_versions
    serve_proxied
    %w[send-proxy send-proxy-v2].each do |option|
      through_haproxy(option) do |port|
        %w[127.0.0.2 127.0.0.3 127.0.0.2].each do |source|
          socket = TCPSocket.new("127.0.0.1", port, source)
          2.times do
            socket.write(GET)
            assert_equal source, read_response(socket).body
          end
          socket.close
        end
      end
    end
  end

  def through_haproxy(option)
    Dir.mktmpdir do |folder|
      port = Ports.free
      File.write("#{folder}/haproxy.cfg", <<~CONF)
        defaults
          mode http
          timeout connect 20s
          timeout client 60s
          timeout server 60s
        frontend front
          bind 127.0.0.1:#{port}
          default_backend app
        backend app
          http-reuse always
          server s0 127.0.0.1:#{@server.port} #{option}
      CONF
      pid = spawn(program("haproxy"), "-db", "-f", "#{folder}/haproxy.cfg", %i[out err] => "#{folder}/log")
      eventually { reaches?(port) }
      yield port
    ensure
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
  end

  def reaches?(port)
    TCPSocket.open("127.0.0.1", port, &:close) || true
  rescue SystemCallError
    false
  end

  def test_not_with_tls
    error = assert_raises(ArgumentError) do
      NB::Server.new(HELLO, bind: "ssl://127.0.0.1:0?cert=#{__FILE__}&key=#{__FILE__}", proxy_protocol: true)
    end
    assert_equal "proxy_protocol: does not go with ssl://: let the proxy decrypt", error.message
  end
end
# rubocop:enable Layout/LineLength

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require_relative "../support/certificates"
require "tmpdir"

# TLS without a proxy: what goes in and out, what is left open, and how many there may be.
class ServerTlsTest < Minitest::Test
  include ServerTest

  GET = "GET / HTTP/1.1\r\n#{HOST}\r\n".freeze
  def serve_tls(**options, &app)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/key", Certificates::KEY.to_pem)
      File.write("#{folder}/cert", Certificates.certificate.to_pem)
      serve(app, bind: "ssl://127.0.0.1:0?cert=#{folder}/cert&key=#{folder}/key", **options)
    end
  end

  def secure(session: nil, **parameters)
    context = OpenSSL::SSL::SSLContext.new
    context.set_params(verify_mode: OpenSSL::SSL::VERIFY_NONE, **parameters)
    socket = OpenSSL::SSL::SSLSocket.new(connect, context)
    socket.sync_close = true
    socket.session = session if session
    Timeout.timeout(5) { socket.connect }
  end

  def fds = Dir.children("/proc/self/fd").size

  def test_the_application_sees_https_and_who_asks
    serve_tls { |env| [200, {}, [env.values_at("rack.url_scheme", "SERVER_PORT", "REMOTE_ADDR").join(" ")]] }
    socket = secure.tap { |client| client.write(GET) }
    assert_equal "https 443 127.0.0.1", read_response(socket).body
  end

  def test_large_bodies_both_ways_in_both_versions
    serve_tls { |env| [200, {}, [env["rack.input"].read.reverse]] }
    body = Random.bytes(3_000_000)
    [OpenSSL::SSL::TLS1_2_VERSION, OpenSSL::SSL::TLS1_3_VERSION].each do |version|
      socket = secure(min_version: version, max_version: version, alpn_protocols: %w[h2 http/1.1])
      assert_equal "http/1.1", socket.alpn_protocol
      2.times do
        writer = Thread.new { socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: #{body.bytesize}\r\n\r\n", body) }
        response = read_response(socket)
        writer.join
        assert_equal body, response.body.reverse
      end
    end
  end

  def test_a_session_is_taken_up_again
    serve_tls(&HELLO)
    first = secure(max_version: OpenSSL::SSL::TLS1_2_VERSION)
    again = secure(session: first.session, max_version: OpenSSL::SSL::TLS1_2_VERSION)
    assert_predicate again, :session_reused?
    again.write(GET)
    assert_equal "hello", read_response(again).body
  end

  # Whoever ends it, and however.
  def test_nothing_is_left_open
    serve_tls(idle_timeout: 0.3, &HELLO)
    ways = {
      "the client" => ->(socket) { socket.write(GET) && read_response(socket) && socket.close },
      "the server, asked to" => ->(socket) { socket.write(GET.sub("\r\n\r\n", "\r\nConnection: close\r\n\r\n")) && socket.read && socket.close },
      "the server, by idle_timeout" => ->(socket) { socket.write(GET) && socket.read && socket.close },
      "a reset" => ->(socket) { socket.write(GET) && socket.io.setsockopt(Socket::Option.linger(true, 0)) && socket.close }
    }
    before = fds
    ways.each_value { |way| 5.times { way.call(secure) } }
    ["no TLS\r\n\r\n", ""].each { |bytes| 5.times { connect.tap { |socket| socket.write(bytes) }.close } }
    eventually { @sockets.each(&:close) && fds <= before }
    assert_equal "", @log.string
  end

  def test_beyond_the_limit_connections_wait_for_others_to_end
    serve_tls(connections: 2, &HELLO)
    two = Array.new(2) { secure }
    third = Thread.new { secure.tap { |socket| socket.write(GET) }.then { |socket| read_response(socket).body } }
    two.each { |socket| socket.write(GET) && assert_equal("hello", read_response(socket).body) }
    refute third.join(0.1)
    two.first.close
    assert_equal "hello", third.value
  end

  def test_the_server_ends_after_the_requests_that_run
    go = Thread::Queue.new
    serve_tls { |_env| go.pop && HELLO.call(nil) }
    socket = secure.tap { |client| client.write(GET) }
    eventually { @server.stats[:running] == 1 }
    idle = secure
    server, thread = @servers.pop
    server.stop
    go << true
    assert_equal "hello", read_response(socket).body
    assert thread.join(5)
    [socket, idle].each { |client| assert_empty client.read }
  end
end
# rubocop:enable Layout/LineLength

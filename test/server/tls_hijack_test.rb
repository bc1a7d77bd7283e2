# frozen_string_literal: true

require_relative "helper"
require_relative "../support/certificates"
require "tmpdir"

# A hijacked socket over TLS when the server stops: as without TLS.
class ServerTlsHijackTest < Minitest::Test
  include ServerTest

  GET = "GET / HTTP/1.1\r\n#{HOST}\r\n".freeze

  def serve_tls(**options, &app)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/key", Certificates::KEY.to_pem)
      File.write("#{folder}/cert", Certificates.certificate.to_pem)
      serve(app, bind: "ssl://127.0.0.1:0?cert=#{folder}/cert&key=#{folder}/key", **options)
    end
  end

  def secure
    client = OpenSSL::SSL::SSLSocket.new(connect)
    Timeout.timeout(60) { client.connect }
    client.write(GET)
    client
  end

  def stop
    server, thread = @servers.pop
    server.stop
    assert thread.join(60), "it waits for the hijacked socket: #{thread.backtrace&.first(5)}"
  end

  # Action Cable's threads keep sockets that nobody closes when the server stops.
  def test_a_socket_that_a_thread_keeps_does_not_hold_the_server_up
    kept = Thread::Queue.new
    serve_tls(drain_timeout: nil) do |env|
      io = env["rack.hijack"].call
      Thread.new { io.write("hello") && kept << io }
      [200, {}, []]
    end
    client = secure
    assert_equal "hello", Timeout.timeout(60) { client.readpartial(100) }
    io = kept.pop
    stop
  ensure
    io&.close
  end

  # Browsers open connections before they need them.
  def test_nor_one_whose_handshake_ends_while_the_server_drains
    kept = Thread::Queue.new
    serve_tls(drain_timeout: nil) { |env| (kept << env["rack.hijack"].call) && HELLO.call(nil) }
    client = OpenSSL::SSL::SSLSocket.new(connect)
    server, thread = @servers.pop
    server.stop
    eventually { !server.ready? }
    client.connect
    client.write(GET)
    io = kept.pop
    assert thread.join(60), "it waits for the hijacked socket"
  ensure
    io&.close
  end

  # Its fiber has drain_timeout, like every other one of the loop.
  def test_what_a_fiber_writes_while_the_server_ends_arrives
    serve_tls do |env|
      io = env["rack.hijack"].call
      NB.async do
        io.write("hello")
        NB.until_stop { sleep }
        sleep 0.05
        io.write("x" * 100_000, "bye")
        io.close
      end
      [200, {}, []]
    end
    client = secure
    assert_equal "hello", Timeout.timeout(60) { client.readpartial(100) }
    rest = Thread.new { client.read }
    stop
    assert_equal "xbye", rest.value[-4..]
  end

  # The server stops, and the loop goes on.
  def test_it_works_as_long_as_the_loop
    sockets, go, done = Array.new(3) { Thread::Queue.new }
    application = ->(env) { (sockets << env["rack.hijack"].call) && HELLO.call(nil) }
    thread = Thread.new do
      NB.run do
        serve_here(application) { |server| go << server }
        done.pop
      end
    end
    @server = go.pop
    client = secure
    io = sockets.pop
    @server.stop
    eventually { !@server.ready? && !NB::Server.running.key?(@server) }
    2.times do
      io.write("ping")
      assert_equal "ping", Timeout.timeout(60) { client.readpartial(100) }
      client.write("pong")
      assert_equal "pong", Timeout.timeout(60) { io.readpartial(100) }
    end
    io.close
    assert_empty Timeout.timeout(60) { client.read }
  ensure
    done << true
    thread.join(60) || flunk("the loop did not end")
  end

  def serve_here(application, &started)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/key", Certificates::KEY.to_pem)
      File.write("#{folder}/cert", Certificates.certificate.to_pem)
      bind = "ssl://127.0.0.1:0?cert=#{folder}/cert&key=#{folder}/key"
      NB::Server.new(application, bind: bind, log: nil).run(&started)
    end
  end
end

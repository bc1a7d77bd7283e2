# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"

# Closing a socket destroys what its client has not received yet, once that client sends a further
# byte: the kernel answers it with a reset. So the server first closes only its sending side, and
# drops what comes, for a while (RFC 9112 9.6).
class ServerLingeringTest < Minitest::Test
  include ServerTest

  NEXT = "GET /next HTTP/1.1\r\n#{HOST}\r\n".freeze
  BODY = "x" * 300_000

  # Most of the response still waits in the server's kernel.
  def connect_slowly
    socket = Socket.new(:INET, :STREAM)
    (@sockets ||= []) << socket
    socket.setsockopt(:SOCKET, :RCVBUF, 4096)
    socket.connect(Addrinfo.tcp("127.0.0.1", @server.port))
    socket
  end

  NB::Native.backends.each do |backend|
    define_method("test_a_request_behind_the_last_response_destroys_nothing_#{backend}") do
      serve(backend: backend) { [200, {"connection" => "close"}, [BODY]] }
      socket = connect_slowly
      socket.write(NEXT)
      eventually { @server.stats[:response_bytes] > BODY.bytesize }
      2.times { socket.write(NEXT) }
      assert_equal BODY.bytesize, Timeout.timeout(60) { socket.read }.split("\r\n\r\n").last.bytesize
      assert_equal 1, @server.stats[:requests]
      socket.close
      eventually { @server.stats[:connections].zero? }
    end

    # Much more than the kernel holds for us.
    define_method("test_a_refused_upload_may_go_on_#{backend}") do
      serve(HELLO, backend: backend, body_bytes: 1000)
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 40000000\r\n\r\n")
      Timeout.timeout(60) { 40.times { socket.write("x" * 1_000_000) } }
      assert_match(/\AHTTP\/1.1 413 /, Timeout.timeout(60) { socket.read })
      eventually { @server.stats[:request_bytes] > 39_000_000 } # the rest may be with the kernel still
    end
  end

  def test_an_endless_upload_is_cut_off
    serve(HELLO, body_bytes: 1000)
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 40000000\r\n\r\n")
    assert_raises(Errno::EPIPE, Errno::ECONNRESET) { Timeout.timeout(60) { 500.times { socket.write("x" * 1_000_000) } } }
    assert_includes 64_000_000..80_000_000, @server.stats[:request_bytes]
  end

  # Each byte prolongs it by two seconds otherwise.
  def test_a_stopping_server_does_not_wait_for_a_client_that_goes_on
    serve(HELLO, body_bytes: 1000)
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 40000000\r\n\r\n")
    assert_match(/ 413 /, Timeout.timeout(60) { socket.gets })
    @server.stop
    thread = @servers.last.last
    Timeout.timeout(20) { socket.write("x") until thread.join(0.1) }
  rescue Errno::EPIPE, Errno::ECONNRESET
    assert thread.join(20)
  end

  # It has said that nothing follows. A connection that lingers would take what it sends for 30 s.
  def test_no_lingering_with_a_client_that_ends
    serve(HELLO)
    sockets = ["HTTP/1.1\r\nConnection: close", "HTTP/1.0"].map do |line|
      connect.tap { |socket| socket.write("GET / #{line}\r\n#{HOST}\r\n") }
    end
    sockets.each { |socket| Timeout.timeout(60) { socket.read } }
    sockets.each do |socket|
      assert_raises(Errno::EPIPE, Errno::ECONNRESET) { Timeout.timeout(20) { loop { socket.write("x") && sleep(0.01) } } }
    end
    eventually { @server.stats[:connections].zero? }
  end
end
# rubocop:enable Layout/LineLength

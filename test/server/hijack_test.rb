# frozen_string_literal: true

require_relative "helper"

class ServerHijackTest < Minitest::Test
  include ServerTest

  def test_full_hijack_gives_the_socket_with_early_bytes
    serve do |env|
      io = env["rack.hijack"].call
      raise "no hijack_io" unless env["rack.hijack_io"].equal?(io)

      Fiber.schedule do
        io.write("raw #{io.class} #{io.readpartial(100)}")
        io.write(" #{io.gets}")
        io.close
      end
      [500, {}, ["not looked at"]]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\nearly")
    assert_equal "raw TCPSocket early", Timeout.timeout(5) { socket.readpartial(100) }
    socket.write("late\n")
    assert_equal " late\n", socket.read
  end

  def test_partial_hijack_sends_the_head_and_leaves_the_rest
    hijack = lambda do |io|
      io.write("body")
      io.close
    end
    serve { |_env| [200, {"x" => "y", "rack.hijack" => hijack}, []] }
    answer = get
    assert_match(/\AHTTP\/1.1 200 OK\r\nx: y\r\n/, answer)
    assert_match(/\r\n\r\nbody\z/, answer)
    refute_match(/rack.hijack|chunked|content-length/, answer)
  end

  def test_streaming_body_is_framed_and_keeps_the_connection
    body = lambda do |stream|
      stream.write("a", "b")
      stream << "c"
      stream.flush.close
    end
    serve { |_env| [200, {}, body] }
    socket = connect
    2.times do
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      assert_equal "abc", read_response(socket).body
    end
  end

  def test_streaming_body_may_go_on_in_another_fiber
    body = lambda do |stream|
      Fiber.schedule do
        3.times { |i| sleep(0.01) && stream.write("data: #{i}\n\n") }
        stream.close
      end
    end
    serve { |_env| [200, {"content-type" => "text/event-stream"}, body] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "data: 0\n\ndata: 1\n\ndata: 2\n\n", read_response(socket).body
  end

  def test_upgrade_hands_the_socket_over
    body = lambda do |io|
      io.write(io.readpartial(10).upcase)
      io.close
    end
    seen = nil
    serve do |env|
      seen = env["rack.protocol"]
      [101, {"upgrade" => "echo", "connection" => "upgrade"}, body]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}Upgrade: echo, other\r\nConnection: Upgrade\r\n\r\n")
    answer = Timeout.timeout(5) { socket.readpartial(1000) }
    assert_match(/\AHTTP\/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n/,
answer)
    socket.write("ping")
    assert_equal "PING", socket.read
    assert_equal %w[echo other], seen
  end

  def test_an_ended_request_answers_no_more
    kept = nil
    serve { |env| (kept = env["rack.hijack"]) && [200, {}, []] }
    get
    error = assert_raises(IOError) { kept.call }
    assert_match(/the request has ended/, error.message)
    assert_predicate kept, :client_gone?
  end

  def test_a_stream_whose_client_is_gone_raises_epipe
    ended = Thread::Queue.new
    body = lambda do |stream|
      loop { stream.write("x" * 65_536) }
    rescue Errno::EPIPE, Errno::ECONNRESET => error
      ended << error
    end
    serve { |_env| [200, {}, body] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    socket.readpartial(1000)
    socket.setsockopt(Socket::Option.linger(true, 0))
    socket.close
    assert_kind_of SystemCallError, Timeout.timeout(5) { ended.pop }
    eventually { @server.stats[:connections].zero? }
  end
end

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
    assert_equal "raw TCPSocket early", Timeout.timeout(60) { socket.readpartial(100) }
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

  # As under Puma: the client would take what it writes for the next response.
  def test_a_partial_hijack_of_a_response_without_a_body
    called = []
    hijack = {"rack.hijack" => ->(io) { called << io && io.close }}
    serve { |env| [Integer(env["PATH_INFO"][1..]), hijack, []] }
    {"HEAD" => 200, "GET" => 204, "POST" => 304}.each do |method, status|
      socket = connect
      socket.write("#{method} /#{status} HTTP/1.1\r\n#{HOST}Content-Length: 0\r\n\r\n" * 2)
      2.times { assert_equal status, read_response(socket, head: true).status }
    end
    assert_empty called
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

  # As a socket: close_write leaves the other direction, close ends both.
  def test_a_stream_closes_like_a_socket
    seen = nil
    error = ->(&call) { call.call rescue $!.class }
    body = lambda do |stream|
      seen = [stream.closed?, stream.close_write, stream.closed?, stream.read]
      seen << error.call { stream.write("a") } << stream.close << stream.closed?
      seen << error.call { stream.read } << stream.close
    end
    serve { [200, {}, body] }
    head = "POST / HTTP/1.1\r\n#{HOST}Connection: close\r\nContent-Length: 3\r\n\r\n"
    assert_match(/\r\n\r\n0\r\n\r\n\z/, exchange("#{head}abc"))
    assert_equal [false, nil, false, "abc", IOError, nil, true, IOError, nil], seen
  end

  # A client may wait for the end of the response before it sends the rest of its request.
  CLOSE = {here: ->(&close) { close.call }, fiber: ->(&close) { Fiber.schedule(&close) },
           thread: ->(&close) { Thread.new(&close).join }}.freeze
  LENGTH = {"" => {}, "_with_a_length" => {"content-length" => "3"}}.freeze
  CLOSE.keys.product(LENGTH.to_a) do |where, (name, fields)|
    define_method("test_close_write_ends_the_response_at_once_#{where}#{name}") do
      read = Thread::Queue.new
      body = lambda do |stream|
        stream.write("bye")
        CLOSE.fetch(where).call { stream.close_write }
        read << stream.read
      end
      serve(body_streaming: true, body_timeout: 5) { [200, fields, body] }
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
      assert_equal "bye", read_response(socket).body
      socket.write("3\r\ndef\r\n0\r\n\r\n")
      assert_equal "abcdef", Timeout.timeout(60) { read.pop }
      assert_equal ["", ""], [Timeout.timeout(60) { socket.read }, @log.string]
    end
  end

  # The length is not reached, and only the end of the connection ends the body.
  def test_what_close_write_cannot_end
    {"HTTP/1.1" => {"content-length" => "4"}, "HTTP/1.0" => {}}.each do |version, fields|
      body = ->(stream) { stream.write("bye") && stream.close_write && raise("not nil") }
      serve { [200, fields, body] }
      socket = connect
      socket.write("GET / #{version}\r\n#{HOST}\r\n")
      assert_operator Timeout.timeout(60) { socket.read }, :end_with?, "\r\n\r\nbye"
      assert_equal fields.any?, @log.string.include?("1 bytes shorter than its content-length")
    end
  end

  def test_what_raises_after_close_write_is_reported
    body = ->(stream) { stream.write("bye") && (stream.close_write || raise("too late")) }
    serve { [200, {}, body] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal ["bye", ""], [read_response(socket).body, Timeout.timeout(60) { socket.read }]
    assert_match(/too late/, @log.string)
  end

  # The client sends nothing, and body_timeout is far off.
  EXPECT = {"" => "", "_for_100" => "Expect: 100-continue\r\n"}.freeze
  ways = NB::Native.backends.product(%i[fiber thread], EXPECT.to_a)
  ways.each do |backend, where, (name, expect)|
    define_method("test_closing_a_stream_ends_a_read_that_waits#{name}_#{where}_#{backend}") do
      reads = Thread::Queue.new
      body = lambda do |stream|
        close = -> { reads.pop && stream.close }
        where == :fiber ? Fiber.schedule(&close) : Thread.new(&close)
        stream.write("begun").then { reads << 1 }
        stream.read(10)
      rescue IOError => error
        reads << error.message
        raise if error.message != "stream closed in another thread"
      end
      serve(backend: backend, body_streaming: true) { [200, {}, body] }
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}#{expect}Transfer-Encoding: chunked\r\n\r\n")
      answer = Timeout.timeout(20) { socket.read }
      assert_match(/^connection: close\r\n\r\n5\r\nbegun\r\n0\r\n\r\n\z/m, answer)
      assert_equal ["stream closed in another thread", ""], [reads.pop, @log.string]
    end
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
    answer = Timeout.timeout(60) { socket.readpartial(1000) }
    assert_match(/\AHTTP\/1.1 101 Switching Protocols\r\nupgrade: echo\r\n/, answer)
    assert_match(/^connection: upgrade\r\n\r\n\z/, answer)
    socket.write("ping")
    assert_equal "PING", socket.read
    assert_equal %w[echo other], seen
  end

  UPGRADE = "GET / HTTP/1.1\r\n#{HOST}Upgrade: echo\r\nConnection: Upgrade\r\n\r\n".freeze

  # Rack 3.1: `rack.protocol` has the server do what `upgrade` and `connection` do by hand.
  [101, 200].each do |status|
    define_method("test_the_server_switches_to_the_protocol_of_a_#{status}") do
      body = lambda do |io|
        io.write(io.readpartial(10).upcase)
        io.close
      end
      serve { [status, {"rack.protocol" => "echo", "a" => "b"}, body] }
      socket = connect
      socket.write(UPGRADE)
      answer = Timeout.timeout(60) { socket.readpartial(1000) }
      assert_match(/\AHTTP\/1.1 101 Switching Protocols\r\na: b\r\nupgrade: echo\r\ndate: /, answer)
      assert_match(/^connection: upgrade\r\n\r\n\z/, answer)
      socket.write("ping")
      assert_equal "PING", socket.read
    end
  end

  def test_a_protocol_named_twice_is_sent_once
    serve { [101, {"rack.protocol" => "echo", "upgrade" => "echo"}, lambda(&:close)] }
    assert_equal 1, exchange(UPGRADE, shut: false).scan(/^upgrade: echo\r$/).size
  end

  def test_a_protocol_that_nobody_asked_for
    serve { [101, {"rack.protocol" => "echo"}, lambda(&:close)] }
    assert_match(/\AHTTP\/1.1 500 /, get)
    assert_match(/rack.protocol is "echo", but the client asked for no upgrade/, @log.string)
  end

  def test_a_protocol_beside_a_refusal_is_left_out
    serve { [403, {"rack.protocol" => "echo"}, ["no"]] }
    answer = exchange(UPGRADE)
    assert_match(/\AHTTP\/1.1 403 .*\r\n\r\nno\z/m, answer)
    refute_match(/echo/, answer)
  end

  def test_protocols_without_blanks_between
    serve { |env| [200, {}, [env["rack.protocol"].inspect]] }
    answer = get("/", "Upgrade: echo,,other ,\tthird\r\nConnection: upgrade\r\n")
    assert_match(/\r\n\r\n#{Regexp.escape(%w[echo other third].inspect)}\z/, answer)
  end

  def test_an_ended_request_answers_no_more
    kept = nil
    serve { |env| (kept = env["rack.hijack"]) && [200, {}, []] }
    get
    error = assert_raises(IOError) { kept.call }
    assert_match(/this request has finished/, error.message)
    assert_predicate kept, :client_gone?
  end

  # The socket is the application's: the server has room for another client, and does not know
  # whether this one is there.
  def test_a_hijacked_connection_leaves_room_for_the_next
    gate = Thread::Queue.new
    serve(connections: 1) do |env|
      next [200, {}, ["next"]] if env["PATH_INFO"] == "/next"

      io = env["rack.hijack"].call
      io.write("gone? #{env["neverblock.exchange"].client_gone?}")
      gate.pop
      io.close
      [200, {}, []]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "gone? false", Timeout.timeout(60) { socket.readpartial(100) }
    assert_match(/next\z/, get("/next"))
    gate << true
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
    Reset.close(socket)
    assert_kind_of SystemCallError, Timeout.timeout(60) { ended.pop }
    eventually { @server.stats[:connections].zero? }
  end

  # Whoever writes may end by that, and close nothing.
  def test_the_request_of_a_stream_ends_when_a_write_finds_its_client_gone
    errors = Thread::Queue.new
    serve do |_env|
      [200, {}, lambda { |stream|
        Thread.new do
          2.times do
            loop { stream.write("x" * 65_536) }
          rescue SystemCallError, IOError => error
            errors << error.class
          end
        end
      }]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    socket.readpartial(1000)
    socket.close
    eventually { @server.stats[:running].zero? }
    assert_equal [Errno::EPIPE] * 2, Array.new(2) { errors.pop }
  end

  # So may whoever flushes, or reads.
  FINDS = {flush: lambda(&:flush), read: ->(stream) { stream.read(1) },
           readpartial: ->(stream) { stream.readpartial(1) }}.freeze
  FINDS.each_key do |name|
    define_method("test_the_request_of_a_stream_ends_when_its_#{name}_finds_its_client_gone") do
      gate, errors = Array.new(2) { Thread::Queue.new }
      body = lambda do |stream|
        stream.write("begun")
        Thread.new do
          gate.pop
          stream.write("more") # goes out later, in the loop
          gate.pop
          FINDS.fetch(name).call(stream)
        rescue SystemCallError => error
          errors << error.class
        end
      end
      serve(body_streaming: true) { [200, {}, body] }
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n")
      socket.readpartial(1000)
      Reset.close(socket)
      gate << true
      eventually { @server.stats[:connections].zero? }
      gate << true
      assert_equal Errno::EPIPE, Timeout.timeout(20) { errors.pop }
      eventually { @server.stats[:running].zero? }
    end
  end

  # Nor does it close anything if what it writes is too long.
  def test_the_request_of_a_stream_ends_when_more_is_written_than_its_length
    [->(&write) { Fiber.schedule(&write) }, ->(&write) { Thread.new(&write) }].each do |elsewhere|
      errors = Thread::Queue.new
      body = lambda do |stream|
        elsewhere.call do
          stream.write("ab") && stream.flush && stream.write("cd")
        rescue ArgumentError => error
          errors << error.message << (stream.write("c") rescue $!.class)
        end
      end
      serve { [200, {"content-length" => "3"}, body] }
      assert_operator raw("GET / HTTP/1.1\r\n#{HOST}\r\n"), :end_with?, "\r\n\r\nab"
      assert_equal "the body is longer than its content-length", errors.pop
      assert_equal IOError, errors.pop
      assert_match(/the body is 1 bytes shorter/, @log.string)
    end
  end

  def raw(request)
    socket = connect
    socket.write(request)
    Timeout.timeout(60) { socket.read }
  end

  def test_a_full_hijack_sends_early_hints_first
    serve(early_hints: true) do |env|
      env["rack.early_hints"].call("link" => "</a>")
      env["rack.hijack"].call.tap { |io| io.write("mine") && io.close }
      [200, {}, []]
    end
    answer = raw("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nmine", answer
  end

  # As with a partial hijack, and under Puma.
  def test_a_full_hijack_that_raises_closes_its_socket
    {"oops" => RuntimeError, "gone" => Errno::EPIPE, "left" => SystemExit}.each do |word, error|
      kept = nil
      serve do |env|
        kept = env["rack.hijack"].call.tap { |io| io.write("mine") }
        raise error, *(word unless error == SystemExit)
      end
      assert_equal "mine", raw("GET / HTTP/1.1\r\n#{HOST}\r\n")
      assert_predicate kept, :closed?
      assert_equal word == "oops", @log.string.include?("GET / RuntimeError: oops")
    end
  end

  # In memory, and where it had to go to a file.
  def test_a_full_hijack_has_what_came_of_a_body_that_was_not_read
    [{}, {body_memory_bytes: 100, bodies_memory_bytes: 0}].each do |options|
      serve(**options) do |env|
        io = env["rack.hijack"].call
        Fiber.schedule { io.write("go on") && io.write(io.read(9000).tr("x", "y")) && io.close }
        [200, {}, []]
      end
      socket = connect
      fields = "#{HOST}Expect: 100-continue\r\nContent-Length: 9000\r\n"
      socket.write("POST / HTTP/1.1\r\n#{fields}\r\n#{"x" * 8000}")
      assert_equal "go on", Timeout.timeout(60) { socket.read(5) }
      socket.write("x" * 1000)
      assert_equal "y" * 9000, Timeout.timeout(60) { socket.read }
    end
  end
end

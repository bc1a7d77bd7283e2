# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "fileutils"
require "tmpdir"
require_relative "helper"
require "neverblock"

# Where one request ends and the next begins, over raw sockets: what could be smuggled behind another
# is never run, and what is right is framed exactly.
class ServerFramingTest < Minitest::Test
  include ServerTest

  POST = "POST / HTTP/1.1\r\n#{HOST}".freeze
  SMUGGLED = "GET /smuggled HTTP/1.1\r\n#{HOST}\r\n".freeze
  CHUNKED = "Transfer-Encoding: chunked\r\n"
  ATTEMPTS = [
    "Content-Length: 0\r\n#{CHUNKED}\r\n0\r\n\r\n", "#{CHUNKED}Content-Length: 5\r\n\r\n0\r\n\r\n",
    "Content-Length: 0\r\nContent-Length: 46\r\n\r\n", "Content-Length: 0, 46\r\n\r\n", "Content-Length: +0\r\n\r\n",
    "Content-Length : 46\r\n\r\n", "Content-Length: 0\t\r\n\r\n", "Content-Length:\v46\r\n\r\n",
    "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n", "Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n", "X: y\r\nTransfer-Encoding: chunked\r\n X: z\r\n\r\n0\r\n\r\n",
    "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: \0chunked\r\n\r\n0\r\n\r\n", "#{CHUNKED}\r\n0\n\n", "#{CHUNKED}\r\n0\r\n\n", "#{CHUNKED}\r\n0;x\n\r\n",
    "#{CHUNKED}\r\n3\r\nabc0\r\n\r\n", "#{CHUNKED}\r\n3\r\nabcd\r\n0\r\n\r\n", "#{CHUNKED}\r\n10000000000000000\r\n0\r\n\r\n",
    "#{CHUNKED}\r\n0x0\r\n\r\n", "#{CHUNKED}\r\n0 \r\n\r\n", "#{CHUNKED}\r\n-0\r\n\r\n", "\r\x00\r\n"
  ].freeze

  def serve_echo
    @paths = Thread::Queue.new
    serve do |env|
      @paths << env["PATH_INFO"]
      [200, TEXT, ["#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} #{env["rack.input"].read}"]]
    end
  end

  def test_what_is_smuggled_is_never_run
    serve_echo
    ATTEMPTS.each do |attempt|
      answer = exchange("#{POST}#{attempt}#{SMUGGLED}", shut: false)
      assert_match(/\AHTTP\/1.1 4\d\d /, answer, attempt.inspect)
      assert_equal 1, answer.scan("HTTP/1.1 ").size, attempt.inspect
    end
    assert_empty @paths
  end

  FRAMED = {
    "GET /a HTTP/1.1\r\n#{HOST}\r\n" => "GET /a ",
    "GET /a HTTP/1.2\r\n#{HOST}\r\n" => "GET /a ",
    "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" => "GET /a ",
    "GET http://b/a?q HTTP/1.1\r\n#{HOST}\r\n" => "GET /a ",
    "GET http://b?q HTTP/1.1\r\n#{HOST}\r\n" => "GET / ",
    "OPTIONS * HTTP/1.1\r\n#{HOST}\r\n" => "OPTIONS * ",
    "BREW /pot HTTP/1.1\r\n#{HOST}\r\n" => "BREW /pot ",
    "GET http://b/a HTTP/1.1\r\nHost:\r\n\r\n" => "GET /a ",
    "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n" => "OPTIONS * ",
    "GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n" => "GET /a ",
    "GET /a HTTP/1.1\r\n#{HOST}Content-Length: 3\r\n\r\nabc" => "GET /a abc",
    "DELETE /a HTTP/1.1\r\n#{HOST}#{CHUNKED}\r\n0\r\n\r\n" => "DELETE /a ",
    "#{POST}Content-Length: 0\r\n\r\n" => "POST / ",
    "#{POST}Content-Length: 0003\r\n\r\nabc" => "POST / abc",
    "#{POST}Content-Length:3 \r\n\r\nabc" => "POST / abc",
    "#{POST}Content-Length: #{SMUGGLED.size}\r\n\r\n#{SMUGGLED}" => "POST / #{SMUGGLED}",
    "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc" => "POST / abc",
    "#{POST}transfer-encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n00\r\n\r\n" => "POST / 0123456789",
    "#{POST}#{CHUNKED}\r\n3;a=b;c=\"d;\\\"e\" ; f\r\nabc\r\n0;z\r\n\r\n" => "POST / abc",
    "#{POST}#{CHUNKED}\r\n0000000000000003\r\nabc\r\n0\r\nContent-Length: 9\r\nX: y\r\n\r\n" => "POST / abc",
    "#{POST}#{CHUNKED}\r\n2\r\n\r\n\r\n2\r\n0\r\r\n0\r\n\r\n" => "POST / \r\n0\r"
  }.freeze

  def test_what_follows_a_message_is_the_next
    serve_echo
    FRAMED.each do |bytes, body|
      socket = connect
      socket.write(bytes, "GET /next HTTP/1.1\r\n#{HOST}\r\n")
      assert_equal [body, "GET /next "], Array.new(2) { read_response(socket).body }, bytes.inspect
      socket.close
    end
  end

  def test_all_of_them_in_one_write_and_half_closed
    serve_echo
    socket = connect
    socket.write(FRAMED.keys.join)
    socket.close_write
    assert_equal FRAMED.values, Array.new(FRAMED.size) { read_response(socket).body }
    assert_equal "", socket.read
  end

  # Closing the socket with these unread would reset it, and the client would lose what it has not
  # received yet.
  def test_who_has_sent_more_gets_all_of_the_last_answer
    busy, gate = Array.new(2) { Thread::Queue.new }
    serve do |_env|
      NB.blocking { busy << true && gate.pop }
      [200, {"connection" => "close"}, ["x" * 300_000]]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    busy.pop
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n" * 20)
    gate << true
    eventually { @server.stats[:response_bytes] > 300_000 }
    assert_equal 300_000, read_response(socket).body.size
    assert_empty Timeout.timeout(60) { socket.read }
  end

  def test_a_half_closed_part_of_a_request_is_no_request
    serve_echo
    ["GET / HTTP/1.1\r\n#{HOST}", "#{POST}Content-Length: 5\r\n\r\nabc", "#{POST}#{CHUNKED}\r\n3\r\nabc\r\n0\r\n"].each do |part|
      assert_equal "", exchange(part), part.inspect
    end
    assert_empty @paths
  end

  # --- Expect -----------------------------------------------------------------------------------

  EXPECT = "#{POST}Expect: 100-continue\r\n".freeze

  def serve_expecting(&read)
    serve do |env|
      (@paths ||= Thread::Queue.new) << env["PATH_INFO"]
      [200, TEXT, [read&.call(env["rack.input"]) || "unread"]]
    end
  end

  def test_a_body_sent_without_waiting_is_read
    serve_expecting(&:read)
    [["Content-Length: 3\r\n\r\nabc", "abc"], ["#{CHUNKED}\r\n3\r\nabc\r\n0\r\n\r\n", "abc"]].each do |framed, body|
      answer = exchange("#{EXPECT}#{framed}GET /next HTTP/1.1\r\n#{HOST}\r\n")
      assert_equal %w[200 200], answer.scan(/HTTP\/1.1 (\d+)/).flatten - ["100"], answer
      assert_includes answer, body
    end
  end

  # What the application has not read must not be taken for a request.
  def test_a_body_that_nobody_reads_is_never_a_request
    serve_expecting
    socket = connect
    socket.write(EXPECT, "Content-Length: #{SMUGGLED.size}\r\n\r\n")
    assert_equal "unread", read_response(socket).body
    begin
      socket.write(SMUGGLED)
      socket.read
    rescue Errno::EPIPE, Errno::ECONNRESET
      nil # closed already
    end
    exchange("#{EXPECT}Content-Length: #{SMUGGLED.size}\r\n\r\n#{SMUGGLED}")
    exchange("#{EXPECT}#{CHUNKED}\r\n#{SMUGGLED.size.to_s(16)}\r\n#{SMUGGLED}\r\n0\r\n\r\n")
    assert_equal %w[/ / /], Array.new(@paths.size) { @paths.pop }
  end

  def test_continue_is_sent_once_before_the_final_response
    serve_expecting { |input| "#{input.read(1)}#{input.read}" }
    socket = connect
    socket.write(EXPECT, "Content-Length: 3\r\n\r\n")
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", Timeout.timeout(60) { socket.readpartial(100) }
    socket.write("a")
    socket.write("bc")
    assert_equal "abc", read_response(socket).body
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "", read_response(socket).body
  end

  # They read when the head of the response is made: what asks for the body goes before it.
  READING = {"each" => ->(input) { Enumerator.new { |out| out << input.read } }, "slow_each" => ->(input) { Enumerator.new { |out| sleep(0.01) && out << input.read } }, "call" => ->(input) { ->(stream) { stream.write(input.read) && stream.close } },
             "stream" => ->(_) { ->(stream) { stream.write(stream.read) && stream.close } }, "fiber" => ->(_) { ->(stream) { Fiber.schedule { stream.write(stream.read) && stream.close } } }}.freeze
  READING.keys.product([{}, {body_streaming: true, body_memory_bytes: 1}, {early_hints: true}]) do |name, options|
    define_method("test_continue_goes_before_a_response_whose_#{name}_reads#{options.keys.first}") do
      serve(body_timeout: 5, **options) do |env|
        env["rack.early_hints"]&.call("link" => "</a>")
        [200, TEXT, READING.fetch(name).call(env["rack.input"])]
      end
      socket = connect
      socket.write(EXPECT, "Content-Length: 3\r\n\r\n")
      assert_equal 103, read_response(socket).status if options[:early_hints]
      assert_equal [100, {}], read_response(socket).to_a.first(2)
      socket.write("abc")
      assert_equal [200, "abc"], read_response(socket).values_at(0, 2)
      assert_equal ["", ""], [Timeout.timeout(60) { socket.read }, @log.string]
    end
  end

  # A UNIX socket tells of room whenever its client has read, here the response before.
  def test_continue_goes_before_a_response_while_the_client_reads
    begun, goes_on = Array.new(2) { Thread::Queue.new }
    folder = Dir.mktmpdir
    serve(bind: ["tcp://127.0.0.1:0", "unix://#{folder}/s"], body_timeout: 5) do |env|
      body = Enumerator.new { |out| begun.push(true) && goes_on.pop && out << env["rack.input"].read }
      [200, TEXT, env["REQUEST_METHOD"] == "GET" ? ["first"] : body]
    end
    (@sockets = []) << socket = UNIXSocket.new("#{folder}/s")
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n#{EXPECT}Content-Length: 3\r\n\r\n")
    assert Timeout.timeout(60) { begun.pop }
    assert_equal "first", read_response(socket).body
    get # when this is answered, the server has heard of the room
    goes_on << true
    assert_equal [100, {}], read_response(socket).to_a.first(2)
    socket.write("abc")
    assert_equal "abc", read_response(socket).body
  ensure
    FileUtils.rm_rf(folder)
  end

  # Nobody reads: the head goes out with the first part, by a flush, and with the end.
  def test_a_response_for_a_body_that_is_held_back
    goes_on = Thread::Queue.new
    bodies = {"/part" => ->(stream) { sleep(0.01) && stream.write("a") && goes_on.pop && stream.close },
              "/flush" => ->(stream) { sleep(0.01) && stream.flush && goes_on.pop && stream.write("a") && stream.close },
              "/end" => ->(stream) { sleep(0.01) && stream.close }, "/raise" => ->(_) { sleep(0.01) && raise("oops") }}
    serve { |env| [200, TEXT, bodies.fetch(env["PATH_INFO"])] }
    bodies.each_key do |path|
      socket = connect
      socket.write(EXPECT.sub("/", path), "Content-Length: 3\r\n\r\n")
      assert_equal "HTTP/1.1 #{path == "/raise" ? 500 : 200}", Timeout.timeout(60) { socket.read(12) }
      goes_on << true if %w[/part /flush].include?(path)
      assert_match(/\r\n\r\n(1\r\na\r\n)?(0\r\n\r\n|Internal server error.\n)\z/, Timeout.timeout(60) { socket.read })
    end
  end

  # Behind the first part of the response it would be a part of it.
  def test_no_continue_behind_the_head
    serve(body_timeout: 0.1) { |env| [200, TEXT, Enumerator.new { |out| out << "a" and out << env["rack.input"].read }] }
    socket = connect
    socket.write(EXPECT, "Content-Length: 3\r\n\r\n")
    answer = Timeout.timeout(60) { socket.read }
    assert_match(/\AHTTP\/1.1 200 OK\r\n/, answer)
    assert_operator answer, :end_with?, "\r\n\r\n1\r\na\r\n"
  end

  def test_no_continue_for_1_0_or_without_body
    serve_expecting(&:read)
    answer = exchange("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
    assert_match(/\AHTTP\/1.1 200 .*abc\z/m, answer)
    assert_match(/\AHTTP\/1.1 200 /, exchange("#{EXPECT}Content-Length: 0\r\n\r\n"))
    assert_match(/\AHTTP\/1.1 200 /, exchange("GET / HTTP/1.1\r\n#{HOST}Expect: 100-CONTINUE\r\n\r\n"))
  end

  def test_a_held_back_body_that_is_too_large_is_refused_at_once
    serve(body_bytes: 10) { |env| [200, TEXT, [env["rack.input"].read]] }
    assert_match(/\AHTTP\/1.1 413 /, exchange("#{EXPECT}Content-Length: 11\r\n\r\n", shut: false))
    assert_match(/\AHTTP\/1.1 (100 Continue\r\n\r\nHTTP\/1.1 )?413 /, exchange("#{EXPECT}#{CHUNKED}\r\nb\r\nhello world\r\n0\r\n\r\n", shut: false))
  end

  # As Rails' before 8.1: it has a to_ary whatever it wraps, here a part of a file, which needs a block.
  PartOfFile = Struct.new(:parts) do
    def each = parts.each { |part| yield part }
    def to_ary = each
  end

  def test_a_body_whose_length_is_known_is_asked_for_no_array
    heads = [{ "content-length" => "5" }, { "transfer-encoding" => "chunked" }]
    serve { [200, heads.shift, PartOfFile.new(heads.empty? ? ["5\r\nhello\r\n0\r\n\r\n"] : %w[he llo])] }
    2.times { assert_match(/\AHTTP\/1.1 200 .*\r\n\r\n(5\r\n)?hello/m, get) }
  end
end
# rubocop:enable Layout/LineLength

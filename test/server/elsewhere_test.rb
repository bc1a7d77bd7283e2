# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require "tempfile"

# What applications know from other servers, and what the tests of those ask for.
class ServerElsewhereTest < Minitest::Test
  include ServerTest

  # A body that counts how often it is closed.
  class Body
    attr_reader :closed

    def initialize(&each) = (@closed = 0) && (@each = each)
    def each(&) = @each.call(&)
    def close = @closed += 1
  end

  UNWANTED = -> { Body.new { raise "nobody asks for it" } }

  def test_the_body_beside_a_full_hijack_is_closed
    body = UNWANTED.call
    serve do |env|
      env["rack.hijack"].call.tap { |io| io.write("raw") }.close
      [200, {}, body]
    end
    assert_equal "raw", get
    eventually { body.closed == 1 }
    assert_equal "", @log.string
  end

  # Middleware that repairs encodings does so, for all of them.
  def test_what_a_request_changes_in_place_the_next_does_not_see
    names = %w[HTTP_HOST HTTP_X PATH_INFO REQUEST_URI QUERY_STRING]
    seen = []
    serve { |env| (seen << env.values_at(*names).map(&:dup)) && names.each { |name| env[name] << "!" } && [200, {}, []] }
    answers = exchange("GET /a?b HTTP/1.1\r\n#{HOST}X: y\r\n\r\n" * 2)
    assert_equal %w[200 200], answers.scan(/^HTTP\S+ (\d+)/).flatten
    assert_equal [["a", "y", "/a", "/a?b", "b"]] * 2, seen
  end

  # Many let close do what the client need not wait for, and it may compute.
  def test_the_end_of_the_body_does_not_wait_for_its_close
    {each: ->(out) { out.call("x") }, call: ->(stream) { stream.write("x") && stream.close }}.each do |kind, work|
      received = closed_after = nil
      body = Object.new
      body.define_singleton_method(:close) do
        give_up = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
        nil until received || Process.clock_gettime(Process::CLOCK_MONOTONIC) > give_up
        closed_after = received || "nothing"
      end
      body.define_singleton_method(kind) { |stream = nil, &out| work.call(stream || out) }
      serve { [200, {}, body] }
      socket = connect
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      received = read_response(socket).body
      assert_equal ["x", "x"], [received, eventually { closed_after }], kind
    end
  end

  # The connection ends while the application runs: locks and transactions must end all the same.
  def test_the_body_for_a_client_that_is_gone_is_closed
    body = UNWANTED.call
    serve(early_hints: true) do |env|
      sleep 0.001 until env["neverblock.exchange"].client_gone?
      3.times { [env["rack.early_hints"].call("link" => "</a>"), sleep(0.01)] } # are lost
      [200, {}, body]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    Reset.close(socket)
    eventually { body.closed == 1 }
    assert_equal "", @log.string
  end

  # Whoever counts what was delivered must not count what was not.
  def test_response_finished_is_told_of_a_client_that_went_in_the_middle
    large = "x" * 20_000_000
    Tempfile.create("nb") do |file|
      file.write(large)
      file.flush
      path = Body.new { nil }.tap { |body| body.define_singleton_method(:to_path) { file.path } }
      {array: [large], file: path, each: Body.new { |&out| out.call(large) },
       call: ->(stream) { Fiber.schedule { cut_off(stream, large) } }}.each do |kind, body|
        error = finished_with(body) { |socket| assert_equal "HTTP", Timeout.timeout(60) { socket.read(4) } }
        assert_kind_of SystemCallError, error, kind
      end
    end
  end

  def test_response_finished_is_told_of_a_client_that_went_before
    gone = ->(exchange) { sleep 0.001 until exchange.client_gone? }
    error = finished_with(["x"], before: gone) { |_| eventually { @server.stats[:running] == 1 } }
    assert_kind_of SystemCallError, error
  end

  def test_callables_after_the_response_are_all_called
    called = Thread::Queue.new
    serve do |env|
      env["rack.after_reply"] << -> { called << :first } << -> { raise "oops" } << -> { called << :third }
      env["rack.response_finished"] << ->(*) { called << :last } << ->(*) { raise "again" } << ->(_env, status, headers, error) { called << [status, headers, error] }
      [200, {"a" => "b"}, ["ok"]]
    end
    assert_match(/ok\z/, get)
    assert_equal [:first, :third, [200, {"a" => "b"}, nil], :last], Array.new(4) { Timeout.timeout(60) { called.pop } }
    eventually { @log.string.scan(/oops|again/).tally == {"oops" => 1, "again" => 1} }
  end

  # Asks, lets the block wait, resets: what response_finished is told. `before` runs in the application.
  def finished_with(body, before: ->(_exchange) {})
    told = Thread::Queue.new
    serve do |env|
      env["rack.response_finished"] << ->(*, error) { told << error }
      before.call(env["neverblock.exchange"])
      [200, {}, body]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    yield socket
    Reset.close(socket)
    Timeout.timeout(60) { told.pop }
  end

  def cut_off(stream, text)
    stream.write(text)
  rescue Errno::EPIPE
    nil
  end

  def test_a_proxy_that_speaks_tls
    serve { |env| [200, {}, [env.values_at("rack.url_scheme", "SERVER_PORT").join(" ")]] }
    {"" => "http 80", "X-Forwarded-Proto: https\r\n" => "https 443", "X-Forwarded-Proto: https, http\r\n" => "https 443",
     "X-Forwarded-Proto: http\r\n" => "http 80", "X-Forwarded-Scheme: https\r\n" => "https 443",
     "X-Forwarded-Ssl: on\r\n" => "https 443", "X-Forwarded-Ssl: off\r\n" => "http 80"}.each do |field, expected|
      assert_equal expected, get("/", field)[/\r\n\r\n(.*)/, 1], field
    end
  end

  def test_the_port_of_a_client_that_names_no_host_is_the_proxys_if_that_speaks_tls
    serve { |env| [200, {}, [env.values_at("rack.url_scheme", "SERVER_PORT").join(" ")]] }
    assert_match(/https 443\z/, exchange("GET / HTTP/1.0\r\nX-Forwarded-Proto: https\r\n\r\n"))
    assert_match(/http #{@server.port}\z/, exchange("GET / HTTP/1.0\r\nX-Forwarded-Proto: http\r\n\r\n"))
  end

  def test_head_tells_the_length_that_get_would_have
    serve { |env| [Integer(env["PATH_INFO"].delete("/")), {}, env["QUERY_STRING"] == "none" ? [] : %w[abc de]] }
    assert_match(/^content-length: 5\r\n/, exchange("HEAD /200 HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n"))
    [["/200?none", "nothing is known of the length"], ["/204", "it has none"]].each do |path, why|
      refute_match(/content-length/, exchange("HEAD #{path} HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n"), why)
    end
  end

  def test_memory_that_is_not_there_ends_one_request_only
    serve { |env| env["PATH_INFO"] == "/" ? [200, {}, ["ok"]] : "a" * (1 << 46) }
    assert_match(/\AHTTP\/1.1 500 /, get("/much"))
    assert_match(/NoMemoryError/, @log.string)
    assert_match(/ok\z/, get)
  end

  def test_exit_ends_the_server_after_the_other_requests
    others = Thread::Queue.new
    started = Thread::Queue.new
    app = lambda do |env|
      exit(3) if env["PATH_INFO"] == "/exit"
      others.pop
      [200, {}, ["answered"]]
    end
    server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", log: StringIO.new)
    ended = Thread.new do
      server.run { started << true }
    rescue SystemExit => error
      error.status
    end
    started.pop
    clients = Array.new(3) { connect(server).tap { |socket| socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") } }
    eventually { server.stats[:running] == 3 }
    connect(server).tap { |socket| socket.write("GET /exit HTTP/1.1\r\n#{HOST}\r\n") }
    eventually { !server.ready? }
    3.times { others << true }
    clients.each { |socket| assert_equal "answered", read_response(socket).body }
    assert_equal 3, Timeout.timeout(60) { ended.value }
  end

  # Browsers open connections that they may never use: they must not hold up the end.
  def test_a_connection_that_never_said_anything_does_not_hold_up_the_end
    serve(HELLO)
    connect
    eventually { @server.stats[:connections] == 1 }
    server, thread = @servers.pop
    server.stop
    assert thread.join(60), "still waits for the first byte"
  end

  # Rails reads no body when neither field is there.
  def test_a_body_that_comes_later_is_announced
    serve { |env| [200, {}, [env.values_at("HTTP_TRANSFER_ENCODING", "CONTENT_LENGTH").inspect, env["rack.input"].read]] }
    socket = connect
    socket.write("PUT / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", Timeout.timeout(60) { socket.readpartial(100) }
    socket.write("3\r\nabc\r\n0\r\n\r\n")
    assert_equal '["chunked", nil]abc', read_response(socket).body
    socket.write("PUT / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert_equal '[nil, "3"]abc', read_response(socket).body
  end

  # The rest is sent once the application has the request.
  def hijacked(request, rest, &read)
    seen = Thread::Queue.new
    serve(body_streaming: true, body_memory_bytes: 10) do |env|
      seen << true
      read&.call(env["rack.input"])
      env["rack.hijack"].call.tap { |io| io.write("raw #{io.read(20)}") }.close
    end
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}#{request}")
    seen.pop
    socket.write(rest)
    Timeout.timeout(60) { socket.read }
  end

  TEXT20 = "abcdefghijklmnopqrst"

  def test_a_hijack_gets_the_bytes_of_a_streamed_body
    assert_equal "raw #{TEXT20}", hijacked("Content-Length: 20\r\n\r\nabcdefgh", "ijklmnopqrst")
    assert_equal "raw efghijklmnopqrstNEXT", hijacked("Content-Length: 20\r\n\r\nabcdefgh", "ijklmnopqrstNEXT") { |input| input.read(4) }
    assert_equal "raw #{TEXT20}", hijacked("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "0\r\n\r\n#{TEXT20}", &:read)
  end

  def test_a_hijack_of_a_chunked_body_that_is_not_read_is_refused
    assert_match(/\AHTTP\/1.1 500 /, hijacked("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "0\r\n\r\n"))
    assert_match(/unread chunked body cannot be hijacked/, @log.string)
  end
end
# rubocop:enable Layout/LineLength

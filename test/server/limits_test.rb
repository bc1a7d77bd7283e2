# frozen_string_literal: true

require_relative "helper"

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line
class ServerLimitsTest < Minitest::Test
  include ServerTest

  def status_of(answer) = answer[/\AHTTP\/1\.1 (\d+)/, 1].to_i

  def test_request_line_bytes
    serve(HELLO, request_line_bytes: 100)
    assert_equal 200, status_of(get("/#{"a" * 84}"[0, 84]))
    assert_equal 414, status_of(get("/#{"a" * 100}"))
    assert_equal 414, status_of(exchange("GET /#{"a" * 200}", shut: false))
  end

  def test_header_bytes_and_count
    serve(HELLO, header_bytes: 1000, header_count: 10)
    assert_equal 200, status_of(get("/", "X: y\r\n" * 8))
    assert_equal 431, status_of(get("/", "X: y\r\n" * 9))
    assert_equal 431, status_of(get("/", "X: #{"y" * 1000}\r\n"))
  end

  # RFC 9110, 9.3.2.
  def test_a_refused_head_gets_the_length_of_the_text_and_not_the_text
    serve(HELLO, header_count: 10, body_timeout: 0.1)
    [["X: y\r\n" * 11, 431], ["Content-Length: x\r\n", 400], ["Content-Length: 9\r\n", 408]].each do |fields, status|
      get, head = %w[GET HEAD].map { |method| exchange("#{method} / HTTP/1.1\r\n#{HOST}#{fields}\r\n", shut: false) }
      assert_equal status, status_of(head)
      assert_equal get[/^Content-Length: .*$/], head[/^Content-Length: .*$/]
      refute_empty get.split("\r\n\r\n", 2).last
      assert_empty head.split("\r\n\r\n", 2).last, status
    end
  end

  def test_body_bytes
    serve(body_bytes: 1000) { |env| [200, {}, [env["rack.input"].read.bytesize.to_s]] }
    post = "POST / HTTP/1.1\r\n#{HOST}Connection: close\r\n"
    assert_match(/1000\z/, exchange("#{post}Content-Length: 1000\r\n\r\n#{"x" * 1000}"))
    assert_equal 413, status_of(exchange("#{post}Content-Length: 1001\r\n\r\n#{"x" * 1001}"))
    assert_equal 413,
status_of(exchange("#{post}Transfer-Encoding: chunked\r\n\r\n3e9\r\n#{"x" * 1001}\r\n"))
  end

  # A megabyte in memory; then a body may borrow 256 kB of it only; then nothing.
  def test_body_memory_bytes
    { {} => "StringIO", { bodies_memory_bytes: 4 << 20 } => "File",
      { bodies_memory_bytes: 0 } => "File" }.each do |options, kind|
      serve(**options) { |env| [200, {}, [input_of(env)]] }
      20.times { assert_match(/#{kind} 1000000 x\z/, upload(1_000_000)) }
      assert_match(/StringIO 100000 x\z/, upload(100_000))
    end
  end

  def test_memory_for_bodies_comes_back_from_clients_that_leave
    serve(bodies_memory_bytes: 16_000_000) { |env| [200, {}, [input_of(env)]] }
    post = "POST / HTTP/1.1\r\n#{HOST}Content-Length: 1000000\r\n\r\n"
    eventually do # some that met in the last bytes give theirs back and go to a file
      connect.write(post, "x" * 999_999)
      upload(1_000_000).include?("File")
    end
    @sockets.each(&:close)
    eventually { upload(1_000_000).include?("StringIO") }
  end

  # Sixteen bodies that borrow all there is, while their requests run.
  def test_memory_for_bodies_is_in_use_until_the_request_has_ended
    gate = Thread::Queue.new
    serve(body_memory_bytes: 0, bodies_memory_bytes: 4_000_000) { |env| env["PATH_INFO"] == "/hold" ? [200, {}, [gate.pop]] : [200, {}, [input_of(env)]] }
    held = Array.new(16) { connect.tap { |socket| socket.write("POST /hold HTTP/1.1\r\n#{HOST}Content-Length: 249000\r\n\r\n", "x" * 249_000) } }
    eventually { @server.stats[:running] == 16 }
    assert_match(/File 249000 x\z/, upload(249_000))
    16.times { gate << "done" }
    assert_equal ["done"] * 16, held.map { |socket| read_response(socket).body }
    eventually { @server.stats[:bodies_memory_bytes].zero? }
    assert_match(/StringIO 249000 x\z/, upload(249_000))
  end

  def test_files_of_bodies_have_a_limit_together
    gate = Thread::Queue.new
    serve(bodies_memory_bytes: 0, bodies_file_bytes: 1_000_000) { |env| env["PATH_INFO"] == "/hold" ? [200, {}, [gate.pop]] : [200, {}, [input_of(env)]] }
    held = connect
    held.write("POST /hold HTTP/1.1\r\n#{HOST}Content-Length: 600000\r\n\r\n", "x" * 600_000)
    eventually { @server.stats[:running] == 1 }
    assert_match(/\AHTTP\/1.1 503 .*Retry-After.*no room/m, upload(600_000))
    assert_match(/File 300000 x\z/, upload(300_000))
    gate << "done"
    assert_equal "done", read_response(held).body
    eventually { @server.stats[:bodies_file_bytes].zero? }
    assert_match(/File 600000 x\z/, upload(600_000))
    assert_match(/\AHTTP\/1.1 503 /, upload(1_000_001))
  end

  def input_of(env)
    body = env["rack.input"].read
    "#{env["rack.input"].class} #{body.bytesize} #{body.squeeze}"
  end

  def upload(size)
    exchange("POST / HTTP/1.1\r\n#{HOST}Connection: close\r\nContent-Length: #{size}\r\n\r\n" +
      ("x" * size))
  end

  def test_header_timeout
    serve(HELLO, header_timeout: 0.1)
    socket = connect
    socket.write("GET / HT")
    assert_equal 408, status_of(Timeout.timeout(60) { socket.read })
    assert_equal "", Timeout.timeout(60) { connect.read }, "a connection that says nothing is closed"
  end

  # Many at once, so that some are accepted before a byte of them is read.
  def test_the_timeouts_of_a_connection_begin_with_it_however_long_the_server_slept
    serve(HELLO, header_timeout: 1)
    get
    3.times do
      sleep(1.2)
      sockets = Array.new(20) { connect }
      sockets.each { |socket| socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") }
      assert_equal ["hello"] * 20, sockets.map { |socket| read_response(socket).body }
    end
  end

  def test_a_slow_loris_cannot_stretch_the_header_timeout
    serve(HELLO, header_timeout: 0.2)
    socket = connect
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    socket.write("GET / HTTP/1.1\r\n")
    ended = 100.times.any? { # five seconds
      socket.wait_readable(0.05) || (socket.write("X: y\r\n") && nil)
    }
    assert ended
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, :>=, 0.2
    assert_equal 408, status_of(socket.readpartial(100))
  end

  def test_body_timeout
    serve(HELLO, body_timeout: 0.1)
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 9\r\n\r\nab")
    assert_equal 408, status_of(Timeout.timeout(60) { socket.read })
  end

  def test_idle_timeout
    serve(HELLO, idle_timeout: 0.1)
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "hello", read_response(socket).body
    assert_equal "", Timeout.timeout(60) { socket.read }
  end

  def test_write_timeout
    serve(write_timeout: 0.1) { |_env| [200, {}, ["x" * (1 << 24)]] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:timeouts] == 1 && @server.stats[:connections].zero? }
  end

  # What it writes is no sign that it reads.
  def test_write_timeout_of_a_client_that_goes_on_writing
    {"each" => Enumerator.new { |parts| loop { parts << "x" * 65_536 } },
     "call" => ->(stream) { loop { stream.write("x" * 65_536) } }}.each_value do |body|
      serve(write_timeout: 0.3) { |_env| [200, {}, body] }
      socket = connect
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      eventually do
        nag(socket)
        @server.stats.values_at(:timeouts, :running) == [1, 0]
      end
    end
  end

  def nag(socket)
    socket.write("x")
  rescue SystemCallError
    nil # the server has had enough
  end

  def test_request_timeout_cancels_the_fiber
    ended = Thread::Queue.new
    serve(request_timeout: 0.1) do |_env|
      sleep 5
    ensure
      ended << true
    end
    answer = get
    assert_equal 503, status_of(answer)
    assert ended.pop
    assert_match(/RequestTimeoutError/, @log.string)
  end

  def test_request_timeout_can_be_rescued
    serve(request_timeout: 0.1) do |_env|
      sleep 5
    rescue Timeout::Error => error
      [504, {}, [error.class.name]]
    end
    assert_match(/\AHTTP\/1.1 504.*NB::Server::RequestTimeoutError\z/m, get)
  end

  def test_requests_per_connection
    serve(HELLO, requests_per_connection: 2)
    socket = connect
    2.times { socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") }
    assert_nil read_response(socket).headers["connection"]
    assert_equal "close", read_response(socket).headers["connection"]
    assert_equal "", socket.read
  end

  def test_fibers_run_at_a_time_and_the_queue
    gate = Thread::Queue.new
    running = peak = 0
    serve(fibers: 2, queue: 3) do |_env|
      peak = [peak, running += 1].max
      gate.pop
      running -= 1
      [200, {}, []]
    end
    sockets = Array.new(5) { connect.tap { |socket|
 socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") } }
    eventually { @server.stats.values_at(:running, :queued) == [2, 3] }
    5.times { gate << true }
    assert_equal [200] * 5, sockets.map { |socket| read_response(socket).status }
    assert_equal 2, peak
  end

  def test_without_a_queue_who_finds_no_free_fiber_gets_503
    gate = Thread::Queue.new
    serve(fibers: 1, queue: 0) { |env| gate.pop if env["PATH_INFO"] == "/wait"; [200, TEXT, ["ok"]] }
    assert_match(/ 200 .*ok\z/m, get)
    waits = connect
    waits.write("GET /wait HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    assert_match(/\AHTTP\/1.1 503 /, get)
    gate << true
    assert_equal 200, read_response(waits).status
    assert_match(/ 200 .*ok\z/m, get)
  end

  # The fiber that has answered takes what has come meanwhile, and an end is no request.
  def test_without_a_queue_each_request_gets_one_answer
    serve(fibers: 1, queue: 0) { |env| [200, TEXT, [env["PATH_INFO"]]] }
    one = "GET /1 HTTP/1.1\r\n#{HOST}\r\n"
    assert_equal ["HTTP/1.1 200"], exchange(one).scan(/HTTP\S+ \d+/)
    assert_equal ["HTTP/1.1 200"] * 3, exchange(one * 3).scan(/HTTP\S+ \d+/)
    assert_equal 0, @server.stats[:rejected_503]
  end

  def test_without_a_queue_nobody_is_refused_who_asks_nothing
    gate = Thread::Queue.new
    serve(fibers: 1, queue: 0) { gate.pop && [200, {}, []] }
    open = Array.new(2) { connect }
    eventually { @server.stats[:connections] == 2 }
    open.first.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    open.last.close_write
    assert_equal "", Timeout.timeout(60) { open.last.read }
    gate << true
    assert_equal 200, read_response(open.first).status
    assert_equal 0, @server.stats[:rejected_503]
  end

  def test_a_full_queue_answers_503_to_open_connections_and_stops_accepting
    gate = Thread::Queue.new
    serve(fibers: 1, queue: 1) { |_env| gate.pop && [200, {}, []] }
    idle = Array.new(2) { connect }
    busy = Array.new(2) { connect }
    eventually { @server.stats[:connections] == 4 }
    busy.each do |socket|
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      eventually { @server.stats.values_at(:running, :queued).sum >= busy.index(socket) + 1 }
    end
    idle[0].write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    answer = Timeout.timeout(60) { idle[0].read }
    assert_match(/\AHTTP\/1.1 503 .*Retry-After: \d/m, answer)
    late = connect
    late.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    sleep 0.05
    assert_operator @server.stats[:accepted], :<=, 4, "not accepted while the queue is full"
    3.times { gate << true }
    assert_equal [200] * 3, [*busy, late].map { |socket| read_response(socket).status }
  end

  def test_a_pipelining_client_does_not_hold_the_others_up
    gate = Thread::Queue.new
    order = []
    serve(fibers: 1) do |env|
      order << env["PATH_INFO"]
      gate.pop if order.size == 1
      [200, {}, []]
    end
    greedy = connect
    greedy.write("GET /greedy HTTP/1.1\r\n#{HOST}\r\n" * 200)
    eventually { @server.stats[:running] == 1 }
    modest = connect
    modest.write("GET /modest HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:queued] == 1 }
    gate << true
    read_response(modest)
    200.times { read_response(greedy) }
    assert_operator order.index("/modest"), :<=, 2
  end

  def test_a_fast_upload_into_a_file_leaves_the_others_their_turn
    serve(body_bytes: 1 << 30) { |env| [200, {}, [env["rack.input"].size.to_s]] }
    part = "x" * (1 << 20)
    upload = connect
    asked = connect
    upload.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: #{100 << 20}\r\n\r\n")
    writer = Thread.new { 100.times { upload.write(part) } }
    answered = 0
    while writer.alive?
      asked.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      answered += 1 if read_response(asked).status == 200
    end
    assert_operator answered, :>, 3
    assert_equal (100 << 20).to_s, read_response(upload).body
  end

  def test_queue_timeout
    gate = Thread::Queue.new
    serve(fibers: 1, queue_timeout: 0.05) { |_env| gate.pop && [200, {}, []] }
    sockets = Array.new(2) do |i|
      connect.tap { |socket| socket.write("GET /#{i} HTTP/1.1\r\n#{HOST}\r\n") }
    end
    refused = IO.select(sockets, nil, nil, 60)[0].first
    assert_equal 503, read_response(refused).status
    gate << true
    assert_equal 200, read_response((sockets - [refused]).first).status
  end

  # Its client would take a body for the next response. Whichever of the two is refused.
  def test_a_head_that_waited_in_vain_gets_no_body
    gate = Thread::Queue.new
    serve(fibers: 1, queue_timeout: 0.05) { |_env| gate.pop && [200, {}, []] }
    sockets = Array.new(2) do
      connect.tap { |socket| socket.write("HEAD / HTTP/1.1\r\n#{HOST}\r\n") }
    end
    refused = IO.select(sockets, nil, nil, 60)[0].first
    head = Timeout.timeout(60) { refused.read }
    gate << true
    assert_match(/\AHTTP\/1.1 503 /, head)
    assert_equal "", head.split("\r\n\r\n", 2).last
  end

  def test_connections
    serve(HELLO, connections: 2)
    sockets = Array.new(3) { connect.tap { |socket|
 socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") } }
    answered = -> { sockets.select { |socket| socket.wait_readable(0) } }
    first = eventually { answered.call.then { |some| some if some.size > 1 } }
    sleep 0.2
    assert_equal [2, first], [first.size, answered.call]
    first.first.close
    assert_equal 200, read_response((sockets - first).first).status
  end

  def test_options_are_checked
    assert_raises(ArgumentError) { NB::Server.new(HELLO, fibres: 1) }
    assert_raises(ArgumentError) { NB::Server.new(HELLO, fibers: 0) }
    assert_raises(ArgumentError) { NB::Server.new(HELLO, idle_timeout: -1) }
    assert_raises(ArgumentError) { NB::Server.new(HELLO, bind: "127.0.0.1:80") }
  end

  BAD = {
    {fibers: 1.5} => "fibers: must be an integer in 1..100000, got: 1.5", {fibers: nil} => "fibers: must be an integer in 1..100000, got: nil",
    {queue: "many"} => 'queue: must be an integer in 0..1000000, got: "many"', {body_bytes: Float::NAN} => "body_bytes: must be an integer in 0..#{2**62}, got: NaN",
    {idle_timeout: 0} => "idle_timeout: must be seconds > 0, or nil for no limit, got: 0", {idle_timeout: "a"} => 'idle_timeout: must be seconds > 0, or nil for no limit, got: "a"',
    {request_timeout: Float::NAN} => "request_timeout: must be seconds > 0, or nil for no limit, got: NaN", {body_timeout: -Float::INFINITY} => "body_timeout: must be seconds > 0, or nil for no limit, got: -Infinity",
    {early_hints: "false"} => 'early_hints: must be true or false, got: "false"', {drain_timeout: -1} => "drain_timeout: must be seconds >= 0, or nil for no limit, got: -1",
    {drain_timeout: :long} => "drain_timeout: must be seconds >= 0, or nil for no limit, got: :long"
  }.freeze

  def test_a_bad_value_is_told_in_one_sentence
    BAD.each do |options, sentence|
      error = assert_raises(ArgumentError) { NB::Server.new(HELLO, **options) }
      assert_equal sentence, error.message
    end
  end

  # Of nanoseconds in 64 bits there are 584 years.
  def test_the_largest_timeouts_are_no_timeouts
    names = NB::Server::Options::TABLE.keys.grep(/timeout/)
    [Float::INFINITY, 1e12, 1e300, Float::MAX, 2**62, nil].each do |most|
      serve(**[*names, :drain_timeout].to_h { |name| [name, most] }) do |env|
        sleep 0.001
        [200, {}, [env["rack.input"].read]]
      end
      assert_match(/\AHTTP\/1.1 200 .*abc\z/m, exchange("POST / HTTP/1.1\r\n#{HOST}Connection: close\r\nContent-Length: 3\r\n\r\nabc"), most.inspect)
    end
  end
end
# rubocop:enable Layout/LineLength

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require "neverblock"

# What applications and clients do wrong.
class ServerFaultsTest < Minitest::Test
  include ServerTest

  def test_an_exception_is_500_and_a_log_line_and_the_connection_lives
    serve { |env| env["PATH_INFO"] == "/bad" ? raise("oops") : [200, {}, ["ok"]] }
    socket = connect
    socket.write("GET /bad HTTP/1.1\r\n#{HOST}\r\nGET /good HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal [500, 200], Array.new(2) { read_response(socket).status }
    assert_match(/GET \/bad RuntimeError: oops\n.*faults_test\.rb/m, @log.string)
  end

  def test_errors_that_are_no_standard_errors
    serve { |_env| raise NotImplementedError, "later" }
    assert_match(/\AHTTP\/1.1 500/, get)
    serve { |_env| throw :nowhere }
    assert_match(/\AHTTP\/1.1 500/, get)
  end

  [nil, [], [200, {}], ["x", {}, []], [200, {}, nil], [200, {}, [1]], [99, {}, []], [200, {"a\nb" => "c"}, []],
   [200, {"a" => "c\rd"}, []], [200, {"content-length" => "3"}, ["four"]],
   [200, {"content-length" => "-1"}, ["x"]]].each_with_index do |triple, index|
    define_method("test_a_triple_that_is_none_gives_500_#{index}") do
      serve { |env| env["PATH_INFO"] == "/" ? triple : [200, {}, ["ok"]] }
      socket = connect
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\nGET /ok HTTP/1.1\r\n#{HOST}\r\n")
      assert_equal [500, 200], Array.new(2) { read_response(socket).status }, triple.inspect
    end
  end

  def body_that(closed, &each)
    Class.new do
      define_method(:each, &each)
      define_method(:close) { closed << true }
    end.new
  end

  def test_raising_in_mid_body_breaks_the_chunks_and_closes
    closed = Thread::Queue.new
    serve { |_env| [200, {}, body_that(closed) { |&out| out.call("part"); raise("oops") }] }
    answer = get
    assert_match(/4\r\npart\r\n\z/, answer)
    assert closed.pop
    assert_match(/oops/, @log.string)
  end

  def test_yielding_no_string_breaks_the_chunks
    closed = Thread::Queue.new
    serve { |_env| [200, {}, body_that(closed) { |&out| out.call("a"); out.call(5) }] }
    assert_match(/1\r\na\r\n\z/, get)
    assert closed.pop
  end

  def test_a_body_longer_than_its_content_length_is_cut
    serve { |_env| [200, {"content-length" => "3"}, %w[ab cd].each] }
    answer = get
    assert_match(/\r\n\r\nab\z/, answer)
    assert_match(/longer than its content-length/, @log.string)
  end

  def test_a_body_shorter_than_its_content_length_closes
    serve { |_env| [200, {"content-length" => "9"}, %w[ab cd].each] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_match(/content-length: 9\r\n.*\r\n\r\nabcd\z/m, Timeout.timeout(60) { socket.read })
  end

  def test_an_error_in_close_is_logged
    serve { |_env| [200, {}, body_that([]) { |&out| out.call("all") }.tap { |b| def b.close
                                                                                  raise("late")
                                                                                end }] }
    assert_match(/3\r\nall\r\n0\r\n\r\n\z/, get)
    eventually { @log.string.include?("late") }
  end

  def test_a_client_that_goes_away_in_mid_answer
    serve { |_env| [200, {}, ["x" * (1 << 22)]] }
    5.times do
      socket = connect
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      socket.readpartial(100)
      Reset.close(socket)
    end
    eventually { @server.stats[:connections].zero? }
    assert_equal "", @log.string
  end

  def test_a_client_that_goes_away_can_cancel
    ended = Thread::Queue.new
    serve(cancel_when_gone: true) do |env|
      env["PATH_INFO"] == "/" ? sleep(10) : [200, {}, ["ok"]]
    rescue NB::Server::ClientGoneError => error
      ended << error
      raise
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    socket.close
    assert_kind_of NB::Server::ClientGoneError, Timeout.timeout(60) { ended.pop }
    assert_match(/ok\z/, get("/2").sub("\0", ""))
  end

  # Serves requests that sleep, and one that stops the loop while the block runs: what a client does
  # there comes to the server at once.
  # @return [Thread::Queue] of what the sleeping requests meet
  def at_once(**options)
    busy, gate, seen = Array.new(3) { Thread::Queue.new }
    serve(cancel_when_gone: true, **options) do |env|
      next [200, {}, [NB.blocking { busy << true && gate.pop }]] if env["PATH_INFO"] == "/busy"

      begin
        seen << env["neverblock.exchange"].client_gone?
        env["rack.input"].read
        sleep 60
      rescue NB::Server::ClientGoneError => error
        seen << error.class
      end
    end
    yield lambda { |&block|
      socket = connect.tap { |one| one.write("GET /busy HTTP/1.1\r\n#{HOST}\r\n") }
      busy.pop
      block.call
      gate << "done"
      assert_equal 200, read_response(socket).status
    }
    seen
  end

  # Both of its requests, of which the second one waits for the first. Without POLLRDHUP the server
  # learns of it when it reads again, and the first request has begun.
  def test_a_client_that_goes_away_before_its_request_begins_can_cancel
    seen = at_once do |busy|
      busy.call { connect.tap { |socket| socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n" * 2) }.close }
    end
    expected = [!NB::Native::PORTABLE, NB::Server::ClientGoneError, true, NB::Server::ClientGoneError]
    assert_equal expected, Array.new(4) { Timeout.timeout(30) { seen.pop } }
  end

  def test_a_client_that_goes_away_with_the_last_byte_of_its_body_can_cancel
    seen = at_once do |busy|
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
      assert_match(/ 100 /, Timeout.timeout(60) { socket.gets })
      busy.call { socket.write("body") && socket.close }
    end
    assert_equal [false, NB::Server::ClientGoneError], Array.new(2) { Timeout.timeout(30) { seen.pop } }
  end

  # As a timeout or a cancel does that meets a request which was just woken.
  def test_what_was_to_be_raised_in_one_request_is_not_raised_in_the_next
    serve(fibers: 1) do |env|
      Fiber.scheduler.fiber_interrupt(Fiber.current, RuntimeError.new("late")) if env["PATH_INFO"] == "/first"
      sleep 0.001 if env["PATH_INFO"] == "/second"
      [200, {}, []]
    end
    socket = connect
    %w[/first /second /first].each { |path| socket.write("GET #{path} HTTP/1.1\r\n#{HOST}\r\n") }
    assert_equal [200] * 3, Array.new(3) { read_response(socket).status }
    eventually { @server.stats[:running].zero? }
    assert_equal [1, ""], [@server.stats[:fibers], @log.string], "the fiber that rests is not struck either"
  end

  def test_a_client_that_has_its_answer_and_goes_cancels_nothing
    ended = Thread::Queue.new
    serve(cancel_when_gone: true, fibers: 1) do |env|
      after = lambda do
        sleep 0.001 until env["neverblock.exchange"].client_gone?
        ended << sleep(0.001)
      end
      env["rack.after_reply"] << after if env["PATH_INFO"] == "/"
      [200, {}, ["all"]]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "all", read_response(socket).body
    socket.close
    assert Timeout.timeout(60) { ended.pop }
    assert_equal "", @log.string
  end

  def test_client_gone_is_visible
    seen = Thread::Queue.new
    serve do |env|
      seen << env["neverblock.exchange"].client_gone?
      sleep 0.01 until env["neverblock.exchange"].client_gone?
      seen << true
      [200, {}, []]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    refute seen.pop
    socket.close
    assert Timeout.timeout(60) { seen.pop }
  end

  def test_fibers_come_back_clean
    serve(fibers: 1) do |_env|
      seen = [Thread.current[:mark], Fiber.current.instance_variable_get(:@mark), $?]
      seen << Fiber[:mark] if Fiber.respond_to?(:[])
      Thread.current[:mark] = 1
      Fiber.current.instance_variable_set(:@mark, 1)
      system("true")
      Fiber[:mark] = 1 if Fiber.respond_to?(:[]=)
      [200, {}, [seen.compact.inspect]]
    end
    3.times { assert_match(/\[\]\z/, get) }
  end

  def test_stop_lets_requests_end_and_closes_idle_connections
    gate = Thread::Queue.new
    serve { |env| env["PATH_INFO"] == "/wait" ? gate.pop && [200, {}, ["done"]] : [200, {}, []] }
    idle = connect
    idle.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    read_response(idle)
    busy = connect
    busy.write("GET /wait HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    @server.stop
    assert_equal "", Timeout.timeout(60) { idle.read }
    refute_predicate @server, :ready?
    gate << true
    answer = read_response(busy)
    assert_equal %w[done close], [answer.body, answer.headers["connection"]]
    assert_raises(SystemCallError) { connect } if @server.port
    assert @servers.last[1].join(60)
  end

  # Its head has promised so before the server was asked to end; the next one says that it ends.
  def test_stop_keeps_the_connections_that_it_has_promised_to_keep
    gate = Thread::Queue.new
    parts = Enumerator.new { |out| out << "first" && gate.pop && out << " part" }
    serve { |env| [200, {}, env["PATH_INFO"] == "/wait" ? parts : ["next"]] }
    idle, busy = Array.new(2) { connect }
    idle.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    read_response(idle)
    busy.write("GET /wait HTTP/1.1\r\n#{HOST}\r\n")
    nil until busy.gets("\r\n") == "\r\n"
    assert_equal "5\r\nfirst\r\n", busy.read(10)
    @server.stop
    eventually { @server.stats[:draining] }
    idle.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal %w[next close], read_response(idle).then { |answer| [answer.body, answer.headers["connection"]] }
    gate << true
    assert_equal "5\r\n part\r\n0\r\n\r\n", busy.read(15)
    busy.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal %w[next close], read_response(busy).then { |answer| [answer.body, answer.headers["connection"]] }
    assert @servers.last[1].join(60)
  end

  def test_a_second_stop_ends_at_once
    ended = Thread::Queue.new
    serve do |_env|
      sleep 30
    ensure
      ended << true
    end
    connect.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    @server.stop.stop
    assert Timeout.timeout(60) { ended.pop }
  end

  def test_requests_lists_what_runs
    gate = Thread::Queue.new
    serve { |_env| gate.pop && [200, {}, []] }
    connect.write("GET /here HTTP/1.1\r\n#{HOST}X-Request-Id: r1\r\n\r\n")
    entry = eventually { @server.requests.find { |request| request[:backtrace].to_a.any? } }
    assert_equal ["GET", "/here", "r1"], entry.values_at(:method, :path, :request_id)
    assert_match(/faults_test\.rb/, entry[:backtrace].join("\n"))
    gate << true
  end

  def test_access_log
    out = StringIO.new
    serve(HELLO, access_log: out)
    get("/x?y")
    eventually { out.string.end_with?("\n") }
    assert_match(
/\A127\.0\.0\.1 - - \[.*\] "GET \/x\?y HTTP\/1\.1" 200 \d+ \d+\.\dms queue \d+\.\dms -\n\z/, out.string)
  end

  # As on a full disk. The responses go out, and each loss of lines is told once.
  def test_an_access_log_that_cannot_be_written
    out = File.open("/dev/full", "a").tap { |file| file.sync = true }
    serve(HELLO, access_log: out)
    told = -> { @log.string.scan(/access log, which misses lines.*Errno::ENOSPC: .*$/).size }
    3.times { assert_match(/hello\z/, get) }
    eventually { @server.stats[:requests] == 3 && told.call == 1 }
    out.reopen(File::NULL, "a")
    get
    out.reopen("/dev/full", "a").sync = true
    2.times { get }
    eventually { told.call == 2 }
  ensure
    out.close
  end

  # Its bytes were taken: what comes next is the next request.
  def test_a_request_whose_input_cannot_be_made_is_answered_once
    serve(HELLO)
    socket = connect
    socket.write("POST /one HTTP/1.1\r\n")
    eventually { @server.stats[:request_bytes].positive? }
    with_string_io(->(*) { raise NoMemoryError, "failed to allocate" }) do
      socket.write("#{HOST}Content-Length: 3\r\n\r\nabc")
      assert_equal 500, read_response(socket).status
    end
    socket.write("GET /two HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal 200, read_response(socket).status
  end

  # Has others make StringIO objects, as tracers and debuggers do.
  def with_string_io(make)
    StringIO.define_singleton_method(:new, &make)
    yield
  ensure
    StringIO.singleton_class.send(:remove_method, :new)
  end

  # The next request lies where this one lay. Bodies come with the head, behind it, and on demand.
  def test_an_input_whose_making_waits_has_its_own_request
    original = StringIO.method(:new)
    serve { |env| [200, {}, [env["PATH_INFO"], env["rack.input"].read]] }
    with_string_io(lambda { |*arguments|
      sleep 0.01 if Fiber.current_scheduler
      original.call(*arguments)
    }) do
      answers = Array.new(8) { |client| Thread.new { own_answers(client) } }.map(&:value)
      assert_equal [true] * 8, answers
    end
  end

  # @return [Boolean] whether each request of this client was answered with what it said
  def own_answers(client)
    socket = TCPSocket.new("127.0.0.1", @server.port)
    Array.new(20) do |number|
      body = "#{client} #{number} " * (client * 9 + 1)
      head = "POST /#{client}/#{number} HTTP/1.1\r\n#{HOST}Content-Length: #{body.size}\r\n"
      expect = (number % 3).zero?
      socket.write("#{head}#{"Expect: 100-continue\r\n" if expect}\r\n#{body unless expect}")
      2.times { socket.gets } && socket.write(body) if expect
      read_response(socket).body == "/#{client}/#{number}#{body}"
    end.all?
  ensure
    socket&.close
  end

  REFUSED = {
    "GET /a b HTTP/1.1\r\n\r\n" => '"GET - -" 400', "\x16\x03\x01\r\n\r\n" => '"- - -" 400',
    "GET /x HTTP/1.1\r\nHost: a\r\nBad\r\n\r\n" => '"GET /x HTTP/1.1" 400',
    "GET /long HTTP/1.1\r\nHost: a\r\nX: #{"y" * 70_000}\r\n\r\n" => '"GET /long HTTP/1.1" 431',
    "POST /much?a=b HTTP/1.0\r\nContent-Length: 99999999\r\n\r\n" => '"POST /much?a=b HTTP/1.0" 413',
    "GET /slow HTTP/1.1\r\nHost:" => '"GET /slow HTTP/1.1" 408'
  }.freeze

  # A middleware may take the address from a field, where a client writes what it likes.
  def test_what_the_application_puts_into_the_env_is_one_field_of_the_access_log
    app = lambda do |env|
      %w[REMOTE_ADDR REQUEST_METHOD SERVER_PROTOCOL].each { |key| env[key] = "a\" b\n\xff" }
      [204, {}, []]
    end
    %i[common json].each do |format|
      serve(app, access_log: out = StringIO.new, access_log_format: format)
      get
      assert_equal 1, out.string.lines.size, out.string
      assert_includes out.string, {common: "\\x0a\\xff", json: "\\\\x0a\\\\xff"}[format]
    end
  end

  def test_refused_requests_are_in_the_access_log
    out = StringIO.new
    serve(HELLO, access_log: out, header_timeout: 1)
    REFUSED.each do |request, line|
      out.string = +""
      exchange(request, shut: false)
      eventually { out.string.end_with?("\n") }
      assert_match(/\A127\.0\.0\.1 - - \[.*\] #{Regexp.escape(line)} \d+ /, out.string)
    end
  end

  def test_requests_refused_by_a_full_queue_are_in_the_access_log
    out = StringIO.new
    gate = Thread::Queue.new
    serve(access_log: out, fibers: 1, queue_timeout: 0.05) { |_env| gate.pop && [200, {}, []] }
    2.times { connect.write("GET / HTTP/1.1\r\n#{HOST}\r\n") }
    eventually { out.string.end_with?("\n") }
    assert_match(/"- - -" 503 /, out.string)
    gate << true
  end
end
# rubocop:enable Layout/LineLength

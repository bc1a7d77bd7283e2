# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"

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
    assert_match(/content-length: 9\r\n.*\r\n\r\nabcd\z/m, Timeout.timeout(2) { socket.read })
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
      socket.setsockopt(Socket::Option.linger(true, 0))
      socket.close
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
    assert_kind_of NB::Server::ClientGoneError, Timeout.timeout(5) { ended.pop }
    assert_match(/ok\z/, get("/2").sub("\0", ""))
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
    assert Timeout.timeout(5) { seen.pop }
  end

  def test_fibers_come_back_clean
    serve(fibers: 1) do |_env|
      seen = [Thread.current[:mark], Fiber.current.instance_variable_get(:@mark)]
      seen << Fiber[:mark] if Fiber.respond_to?(:[])
      Thread.current[:mark] = 1
      Fiber.current.instance_variable_set(:@mark, 1)
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
    assert_equal "", Timeout.timeout(2) { idle.read }
    refute_predicate @server, :ready?
    gate << true
    answer = read_response(busy)
    assert_equal %w[done close], [answer.body, answer.headers["connection"]]
    assert_raises(SystemCallError) { connect } if @server.port
    assert @servers.last[1].join(5)
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
    assert Timeout.timeout(2) { ended.pop }
  end

  def test_requests_lists_what_runs
    gate = Thread::Queue.new
    serve { |_env| gate.pop && [200, {}, []] }
    connect.write("GET /here HTTP/1.1\r\n#{HOST}X-Request-Id: r1\r\n\r\n")
    entry = eventually { @server.requests.first }
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
end
# rubocop:enable Layout/LineLength

# frozen_string_literal: true

require_relative "helper"
require "neverblock/server/control"
require "tmpdir"

# The control socket and the access log, with what clients and askers may do to them.
class ServerControlTest < Minitest::Test
  include ServerTest

  BYTES = "\xff\xc3".b
  # A request id that is no text, and one that is.
  IDS = [BYTES, "jos\u00e9".b].freeze
  # To a terminal the second is ESC [, by which a client would write on it.
  CONTROL = "a\u009b2Jb".b.freeze

  def with_control(server)
    Dir.mktmpdir do |folder|
      address = "unix://#{folder}/control"
      control = NB::Server::Control.new(address, stats: -> { server.stats },
        ready: -> { server.ready? }, requests: -> { server.requests }).start
      yield address
    ensure
      control&.stop
    end
  end

  def ask(address, path)
    Timeout.timeout(60) { JSON.parse(NB::Server::Control.ask(address, path)) }
  end

  def with_id(id) = "GET /id HTTP/1.1\r\n#{HOST}X-Request-Id: #{id}\r\nConnection: close\r\n\r\n".b

  def test_a_port_that_is_none
    %w[tcp://127.0.0.1:65536 tcp://[::1]:99999].each do |address|
      error = assert_raises(ArgumentError) { NB::Server::Control.new(address, stats: -> {}, ready: -> {}) }
      assert_equal "control: a port is a number from 0 to 65535, got: #{address}", error.message
    end
  end

  def test_one_who_says_nothing_holds_nobody_up
    with_control(serve(&HELLO) && @server) do |address|
      silent = Array.new(10) { UNIXSocket.new(address.delete_prefix("unix://")) }
      assert_equal({"ready" => true}, ask(address, "/ready"))
      silent.each(&:close)
    end
  end

  # HAProxy asks by OPTIONS or HEAD, unless it is told otherwise.
  def test_load_balancers_ask_in_other_ways
    ready = true
    control = NB::Server::Control.new("tcp://127.0.0.1:0", stats: -> { {} }, ready: -> { ready })
    port = control.start.ports.first
    yes, no = [true, false].map { |is| %({"ready":#{is}}\n) }
    {"GET /ready" => [200, yes], "HEAD /ready" => [200, ""], "OPTIONS /ready" => [200, yes],
     "HEAD /stats" => [200, ""], "HEAD /none" => [404, ""]}.each do |line, answer|
      assert_equal answer, ask_by(line, port), line
    end
    ready = false
    {"HEAD" => "", "OPTIONS" => no}.each do |method, body|
      assert_equal [503, body], ask_by("#{method} /ready?a", port)
    end
    ["OPTIONS /stats", "POST /ready", "OPTIONS /readyx", "get /ready", "none", ""].each do |line|
      assert_equal 404, ask_by(line, port).first, line
    end
  ensure
    control&.stop
  end

  # @return [Array(Integer, String)] status and body
  def ask_by(line, port)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("#{line} HTTP/1.0\r\n\r\n")
      head, body = Timeout.timeout(60) { socket.read }.split("\r\n\r\n", 2)
      [Integer(head[/ \d+/]), body]
    end
  end

  # Those who reach the port are not those whom the file lets in, such as a load balancer.
  def test_a_crowd_at_one_address_holds_nobody_up_at_the_other
    Dir.mktmpdir do |folder|
      control = NB::Server::Control.new(["unix://#{folder}/control", "tcp://127.0.0.1:0"],
        stats: -> {}, ready: -> { true }).start
      crowd = Array.new(64) { TCPSocket.new("127.0.0.1", control.ports.first) }
      one_more = TCPSocket.new("127.0.0.1", control.ports.first)
      assert_nil one_more.gets, "there is room for more"
      assert_equal({"ready" => true}, ask("unix://#{folder}/control", "/ready"))
    ensure
      [*crowd, one_more].compact.each(&:close)
      control&.stop
    end
  end

  def test_bytes_in_a_header_do_not_end_it
    gate = Thread::Queue.new
    serve { gate.pop && [200, TEXT, ["late"]] }
    with_control(@server) do |address|
      sockets = IDS.map { |id| connect.tap { |socket| socket.write(with_id(id)) } }
      eventually { @server.stats[:running] == 2 }
      assert_equal ["\\xff\\xc3", "jos\u00e9"],
        ask(address, "/requests").map { |request| request["request_id"] }.sort
      assert_equal({"ready" => true}, ask(address, "/ready"))
      sockets.each { gate << true }.each(&:read)
    end
  end

  def test_the_request_id_of_a_client_moves_no_cursor
    out = StringIO.new
    gate = Thread::Queue.new
    serve(access_log: out, access_log_format: :json) { gate.pop && [200, TEXT, ["late"]] }
    with_control(@server) do |address|
      socket = connect.tap { |one| one.write(with_id(CONTROL)) }
      eventually { @server.stats[:running] == 1 }
      assert_equal ["a\\x9b2Jb"], ask(address, "/requests").map { |request| request["request_id"] }
      gate << true
      socket.read
    end
    eventually { out.string.include?("a\\\\x9b2Jb") }
  end

  # Clients send them as they are, though RFC 3986 wants them encoded.
  def test_bytes_in_a_target_do_not_end_it
    out = StringIO.new
    gate = Thread::Queue.new
    serve(access_log: out, access_log_format: :json) do |env|
      gate.pop
      [200, TEXT, [env.values_at("PATH_INFO", "QUERY_STRING", "REQUEST_URI").join(" ")]]
    end
    with_control(@server) do |address|
      socket = connect
      socket.write("GET /\xff?q=\xc3\xa9 HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n".b)
      eventually { @server.stats[:running] == 1 }
      assert_equal ["/\\xff"], ask(address, "/requests").map { |request| request["path"] }
      assert_includes JSON.generate(@server.snapshot), "/\\\\xff"
      gate << true
      assert_operator socket.read, :end_with?, "/\xff q=\xc3\xa9 /\xff?q=\xc3\xa9".b
    end
    eventually { out.string.include?("\n") }
    assert_equal "/\\xff", JSON.parse(out.string)["uri"][/[^?]+/]
  end

  # A path of the program that is no text is in each backtrace.
  def test_a_program_in_a_folder_whose_name_is_no_text
    gate = Thread::Queue.new
    wait = eval("->(queue) { queue.pop }", binding, "/srv/\xe4/app.rb".b) # rubocop:disable Style/EvalWithLocation, Security/Eval, Style/DocumentDynamicEvalDefinition
    serve { wait.call(gate) && [200, TEXT, ["late"]] }
    with_control(@server) do |address|
      socket = connect.tap { |one| one.write(with_id("a")) }
      eventually { @server.stats[:running] == 1 }
      lines = ask(address, "/requests").first["backtrace"]
      assert lines.any? { |line| line.start_with?("/srv/\\xe4/app.rb:1") }, lines
      gate << true
      socket.read
    end
  end

  def test_what_is_no_json_is_said_and_the_next_is_answered
    Dir.mktmpdir do |folder|
      address = "unix://#{folder}/control"
      control = NB::Server::Control.new(address, stats: -> { {a: Float::NAN} }, ready: -> { true })
      control.start
      assert_match(/NaN/, ask(address, "/stats")["error"])
      assert_equal({"ready" => true}, ask(address, "/ready"))
    ensure
      control&.stop
    end
  end

  def test_what_fails_is_said_and_the_next_is_answered
    Dir.mktmpdir do |folder|
      address = "unix://#{folder}/control"
      control = NB::Server::Control.new(address, stats: -> { raise "no \xff" }, ready: -> { true })
      control.start
      assert_equal({"error" => "RuntimeError: no \\xff"}, ask(address, "/stats"))
      assert_equal({"ready" => true}, ask(address, "/ready"))
    ensure
      control&.stop
    end
  end

  # A socket that another server has made in its place is not ours.
  def test_it_removes_its_own_socket_only
    Dir.mktmpdir do |folder|
      first = control("#{folder}/control").start
      File.rename("#{folder}/control", "#{folder}/old")
      second = control("#{folder}/control").start
      first.stop
      assert_equal({"ready" => true}, ask("unix://#{folder}/control", "/ready"))
      second.stop
      refute_path_exists "#{folder}/control"
    end
  end

  def test_the_path_of_a_living_server_is_in_use_and_that_of_a_dead_one_is_free
    Dir.mktmpdir do |folder|
      path = "#{folder}/control"
      pid = listening_child(path)
      [false, true].each do |own|
        error = assert_raises(Errno::EADDRINUSE) { control(path).start(own: own) }
        assert_includes error.message, "unix://#{path}"
      end
      Process.kill("KILL", pid)
      Process.wait(pid)
      control(path).start.stop
    end
  end

  # After USR2 its own socket may live on in a child that was forked before.
  def test_the_path_that_this_process_listened_at_is_taken_if_that_is_asked_for
    Dir.mktmpdir do |folder|
      path = "#{folder}/control"
      before = control(path).start
      assert_raises(Errno::EADDRINUSE) { control(path).start }
      after = control(path).start(own: true)
      assert_equal({"ready" => true}, ask("unix://#{path}", "/ready"))
      [before, after].each(&:stop)
      refute_path_exists path
    end
  end

  def control(path)
    NB::Server::Control.new("unix://#{path}", stats: -> { {} }, ready: -> { true })
  end

  # @return [Integer] the pid of a process that listens there
  def listening_child(path)
    reader, writer = IO.pipe
    pid = fork do
      server = UNIXServer.new(path)
      writer.close
      sleep
      server.close
    end
    writer.close
    reader.read
    pid
  end

  def test_every_request_is_in_the_access_log
    %i[common json].each do |format|
      out = StringIO.new
      serve(access_log: out, access_log_format: format) do |env|
        env["REMOTE_USER"] = "jos\u00e9\n" if env["HTTP_X_REQUEST_ID"] == BYTES
        [200, TEXT, ["ok"]]
      end
      IDS.each { |id| exchange(with_id(id)) }
      eventually { out.string.count("\n") == 2 }
      found = out.string.lines.map { |line| parse(format, line) }
      assert_equal expected(format), found
    end
  end

  def parse(format, line)
    return JSON.parse(line)["request_id"] if format == :json

    line.match(/\A127\.0\.0\.1 - (.*) \[.*\] "GET \/id HTTP\/1\.1" 200 .* (.*)\n\z/).captures
  end

  def expected(format)
    return ["\\xff\\xc3", "jos\u00e9"] if format == :json

    [["jos\\xc3\\xa9\\x0a", "\\xff\\xc3"], ["-", "jos\\xc3\\xa9"]]
  end
end

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require_relative "../support/subprocess"
require "pathname"

class ServerBasicsTest < Minitest::Test
  include ServerTest

  ECHO = lambda do |env|
    body = env["rack.input"].read
    line = [env["REQUEST_METHOD"], env["PATH_INFO"], env["QUERY_STRING"], body].join("|")
    [200, TEXT, [line]]
  end

  def test_env_has_what_the_request_said
    seen = nil
    serve { |env| (seen = env) && [200, {}, []] }
    exchange("GET /a%20b?c=d HTTP/1.1\r\nHost: x.y:81\r\nAccept: a\r\nX-Foo: 1\r\naccept: b\r\n" \
             "Cookie: p=1\r\nCookie: q=2\r\nContent-Type: t/u\r\nConnection: close\r\n\r\n")
    expected = {
      "REQUEST_METHOD" => "GET", "PATH_INFO" => "/a%20b", "QUERY_STRING" => "c=d",
      "SCRIPT_NAME" => "", "REQUEST_URI" => "/a%20b?c=d", "REQUEST_PATH" => "/a%20b",
      "SERVER_NAME" => "x.y",
      "SERVER_PORT" => "81", "HTTP_HOST" => "x.y:81", "HTTP_ACCEPT" => "a, b", "HTTP_X_FOO" => "1",
      "HTTP_COOKIE" => "p=1; q=2", "CONTENT_TYPE" => "t/u", "SERVER_PROTOCOL" => "HTTP/1.1",
      "REMOTE_ADDR" => "127.0.0.1", "rack.url_scheme" => "http"
    }
    assert_equal expected, seen.slice(*expected.keys)
    refute seen.key?("HTTP_CONTENT_TYPE")
  end

  def test_names_that_would_shadow_others_are_left_out
    seen = nil
    serve { |env| (seen = env) && [200, {}, []] }
    get("/", "X_Real_IP: 6.6.6.6\r\nProxy: http://evil\r\nX-Real-IP: 1.2.3.4\r\nVersion: HTTP/0.9\r\n")
    assert_equal "1.2.3.4", seen["HTTP_X_REAL_IP"]
    refute seen.key?("HTTP_PROXY")
    refute seen.key?("HTTP_VERSION"), "Rack asks for the same as in SERVER_PROTOCOL"
  end

  def test_absolute_form_beats_the_host_field
    seen = nil
    serve { |env| (seen = env) && [200, {}, []] }
    exchange("GET http://real:8080?x HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n")
    assert_equal ["real:8080", "real", "8080", "/", "x"],
                 seen.values_at("HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "PATH_INFO",
"QUERY_STRING")
  end

  # As some middleware does.
  def test_a_path_is_the_applications_to_change
    serve { |env| [200, {}, [env["PATH_INFO"].sub!(/\z/, "!")]] }
    targets = {"OPTIONS *" => "*!", "OPTIONS http://a" => "*!", "GET http://a" => "/!", "GET /" => "/!", "GET /a" => "/a!"}
    targets.each do |target, path|
      assert_equal path, exchange("#{target} HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n").split("\r\n\r\n").last
    end
  end

  # Rack and CGI want a name.
  def test_a_server_name_without_a_host
    seen = nil
    serve { |env| (seen = env) && [200, {}, []] }
    exchange("GET / HTTP/1.0\r\n\r\n")
    assert_equal ["localhost", @server.port.to_s], seen.values_at("SERVER_NAME", "SERVER_PORT")
    refute seen.key?("HTTP_HOST")
  end

  def test_a_star_is_all_addresses_of_ipv4
    server = serve(HELLO, bind: "tcp://*:0")
    assert_equal ["tcp://0.0.0.0:#{server.port}"], server.addresses
    assert_match(/hello\z/, get)
  end

  # A client that looks the name up may get either.
  def test_localhost_is_both_loopbacks_at_one_port
    loopbacks = Socket.ip_address_list.select(&:ipv6_loopback?).map(&:ip_address)
    2.times do
      server = serve(HELLO, bind: "tcp://localhost:0")
      assert_equal ["127.0.0.1", *loopbacks], server.listener_fds.values.map { |fd|
        Socket.for_fd(fd).tap { |io| io.autoclose = false }.local_address.ip_address
      }
      ["127.0.0.1", *loopbacks].each do |host|
        Socket.tcp(host, server.port) do |socket|
          socket.write("GET / HTTP/1.0\r\n\r\n")
          assert_equal "hello", Timeout.timeout(60) { socket.read }.lines.last
        end
      end
    end
  end

  def test_the_server_loads_itself
    result = Subprocess.ruby("print NB::Server.new(->(env) {}).inspect")
    assert_equal ["#<NB::Server tcp://127.0.0.1:9292 not ready>", ""], [result.out, result.err]
  end

  def test_options_of_the_whole_server
    serve(ECHO)
    assert_match(/OPTIONS\|\*\|\|\z/,
exchange("OPTIONS * HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n"))
  end

  # Rack asks for more than `write`, which is all that a log needs.
  def test_a_log_that_can_only_write_is_all_of_rack_errors
    log = Object.new
    log.define_singleton_method(:lines) { @lines ||= [] }
    log.define_singleton_method(:write) { |text| lines << text }
    serve(log: log) do |env|
      errors = env["rack.errors"]
      errors.write("a")
      errors.puts("b")
      errors.puts(:"c\n")
      errors.flush
      [200, {}, []]
    end
    get
    assert_equal %W[a b\n c\n], log.lines
    io = StringIO.new
    assert_same io, NB::Server::Environment.template(io, workers: false)["rack.errors"]
  end

  def test_keep_alive_serves_many_requests_on_one_connection
    serve(ECHO)
    socket = connect
    3.times do |i|
      socket.write("POST /#{i} HTTP/1.1\r\n#{HOST}Content-Length: 2\r\n\r\nb#{i}")
      assert_equal "POST|/#{i}||b#{i}", read_response(socket).body
    end
    assert_equal 1, @server.stats[:accepted]
  end

  def test_pipelined_requests_are_answered_in_order
    serve(ECHO)
    requests = Array.new(50) { |i| "GET /#{i} HTTP/1.1\r\n#{HOST}\r\n" }.join
    socket = connect
    socket.write(requests)
    assert_equal (0...50).map { |i| "GET|/#{i}||" }, Array.new(50) { read_response(socket).body }
  end

  def test_pipelined_bodies
    serve(ECHO)
    socket = connect
    socket.write("POST /a HTTP/1.1\r\n#{HOST}Content-Length: 3\r\n\r\nabc" \
                 "POST /b HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n" \
                 "GET /c HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal %w[POST|/a||abc POST|/b||de GET|/c||], Array.new(3) { read_response(socket).body }
  end

  def test_half_closed_clients_get_all_answers
    serve { |env| sleep(0.02) && ECHO.call(env) }
    answers = exchange("GET /1 HTTP/1.1\r\n#{HOST}\r\nGET /2 HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal 2, answers.scan("HTTP/1.1 200 OK").size
  end

  def test_connection_close_and_http_1_0
    serve(HELLO)
    assert_match(/connection: close\r\n/, get)
    assert_match(/connection: close\r\n/, exchange("GET / HTTP/1.0\r\n\r\n", shut: false))
    socket = connect
    socket.write("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert_equal "keep-alive", read_response(socket).headers["connection"]
    socket.write("GET / HTTP/1.0\r\n\r\n")
    assert_equal "hello", read_response(socket).body
    assert_equal "", socket.read
  end

  def test_head_has_no_body_and_keeps_the_connection
    serve { |_env| [200, {"content-length" => "5"}, ["hello"]] }
    socket = connect
    2.times do
      socket.write("HEAD / HTTP/1.1\r\n#{HOST}\r\n")
      assert_equal "5", read_response(socket, head: true).headers["content-length"]
    end
  end

  def test_statuses_without_body
    serve { |env| [Integer(env["PATH_INFO"][1..]), {}, []] }
    assert_match(/\AHTTP\/1.1 204 No Content\r\n/, get("/204"))
    [204, 304].each { |status| refute_match(/content-length|transfer-encoding/, get("/#{status}")) }
    assert_match(/content-length: 0/, get("/201"))
  end

  def test_enumerable_bodies_are_chunked_and_closed
    closed = Thread::Queue.new
    body = Class.new do
      define_method(:each) { |&block| %w[a bb].each(&block) }
      define_method(:close) { closed << true }
    end
    serve { |_env| [200, {}, body.new] }
    assert_match(/transfer-encoding: chunked\r\n.*\r\n\r\n1\r\na\r\n2\r\nbb\r\n0\r\n\r\n\z/m, get)
    assert closed.pop
    assert_match(/\r\n\r\nabb\z/, exchange("GET / HTTP/1.0\r\n\r\n"))
  end

  def test_chunks_leave_while_the_body_waits
    go = Thread::Queue.new
    body = Enumerator.new do |out|
      out << "first"
      go.pop
      out << "second"
    end
    serve { |_env| [200, {}, body] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    nil until socket.gets("\r\n") == "\r\n"
    assert_equal "5\r\nfirst\r\n", Timeout.timeout(60) { socket.read(10) }
    go << true
    assert_equal "6\r\nsecond\r\n0\r\n\r\n", socket.read(16)
  end

  def test_files_are_sent_by_sendfile
    path = File.expand_path(__FILE__)
    body = Class.new do
      define_method(:each) { |&_block| raise "not this way" }
      define_method(:to_path) { path }
    end
    serve { |_env| [200, {}, body.new] }
    socket = connect
    2.times do
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      assert_equal File.binread(path), read_response(socket).body
    end
  end

  def test_files_may_be_named_by_a_pathname
    path = Pathname(__FILE__).expand_path
    serve { |_env| [200, {}, Struct.new(:to_path) { def each = raise("not this way") }.new(path)] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal path.binread, read_response(socket).body
  end

  def test_large_bodies_to_a_slow_reader
    part = Random.bytes(1 << 20)
    serve { |_env| [200, {}, [part, "x", part, part]] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running].zero? && @server.stats[:requests] == 1 }
    GC.start
    assert_equal part + "x" + part + part, read_response(socket).body
  end

  def test_request_bodies_of_every_size_and_way
    serve(bodies_memory_bytes: 8 << 20) do |env|
      [200, {}, [env["rack.input"].read, env["rack.input"].class.name]]
    end
    [0, 1, 1000, 60_000, 111_000, 120_000, 500_000, 700_000].each do |size|
      body = Random.bytes(size)
      kind = size.zero? ? "" : size > 512 * 1024 ? "File" : "StringIO"
      framed = {"Content-Length: #{size}" => body, "Transfer-Encoding: chunked" => chunk(body)}
      framed.each do |field, bytes|
        socket = connect
        socket.write("POST / HTTP/1.1\r\n#{HOST}#{field}\r\n\r\n#{bytes}")
        answer = read_response(socket).body
        assert_equal body, answer[0, size], "#{field} #{size}"
        assert_equal kind, answer[size..] unless size.zero?
      end
    end
  end

  def chunk(body)
    parts = body.b.scan(/.{1,7777}/mn).map { |part|
 "#{part.bytesize.to_s(16)}\r\n".b << part << "\r\n" }
    parts.join.b << "0\r\nTrailer: x\r\n\r\n"
  end

  def test_continue_is_sent_at_the_first_read_only
    serve { |env| [200, {}, [env["PATH_INFO"] == "/read" ? env["rack.input"].read : "no"]] }
    expect = "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    socket = connect
    socket.write("POST /read HTTP/1.1\r\n#{HOST}#{expect}")
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", Timeout.timeout(60) { socket.read(25) }
    socket.write("hello")
    assert_equal "hello", read_response(socket).body
    socket.write("POST /skip HTTP/1.1\r\n#{HOST}#{expect}")
    answer = read_response(socket)
    assert_equal %w[no close], [answer.body, answer.headers["connection"]]
  end

  def test_early_hints
    serve(early_hints: true) do |env|
      env["rack.early_hints"].call("link" => "</a.css>; rel=preload")
      [200, {}, ["x"]]
    end
    assert_match(
/\AHTTP\/1.1 103 Early Hints\r\nlink: <\/a.css>; rel=preload\r\n\r\nHTTP\/1.1 200/, get)
  end

  # Hints that leave with the response are of no use.
  def test_early_hints_leave_before_the_application_computes
    seen = false
    serve(early_hints: true) do |env|
      env["rack.early_hints"].call("link" => "</a.css>; rel=preload")
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5
      nil until seen || Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      [200, {}, [seen ? "seen before" : "too late"]]
    end
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "HTTP/1.1 103 Early Hints\r\n", Timeout.timeout(60) { socket.gets }
    seen = true
    nil until socket.gets == "\r\n"
    assert_equal "seen before", read_response(socket).body
  end

  def test_response_finished_is_told_after_the_body
    told = Thread::Queue.new
    serve do |env|
      env["rack.response_finished"] << ->(*all) { told << all }
      env["rack.response_finished"] << ->(*) { told << :last_in }
      [201, {"x" => "y"}, ["body"]]
    end
    assert_match(/body\z/, get("/p"))
    assert_equal :last_in, told.pop
    env, status, headers, error = told.pop
    assert_equal ["/p", 201, {"x" => "y"}, nil], [env["PATH_INFO"], status, headers, error]
  end

  # Net::HTTP has the words of the registry, some of them from before RFC 9110.
  def test_every_registered_status_has_its_words
    require "net/http/status"
    serve { |env| [env["PATH_INFO"].delete("/"), {}, []] }
    words = Net::HTTP::STATUS_CODES.select { |status, _| status >= 200 }.transform_values { |text| text.delete_suffix(" (OBSOLETED)") }
    sent = words.to_h { |status, _| [status, get("/#{status}")[/\AHTTP\/1.1 \d+ (.*)\r/, 1]] }
    renamed = {306 => "Unknown", 413 => "Content Too Large", 422 => "Unprocessable Content", 509 => "Unknown"}
    assert_equal words.merge(renamed.slice(*words.keys)), sent.merge(renamed.slice(*sent.keys))
    assert_operator sent.size, :>, 50
  end

  IN_GERMAN = <<~'RUBY'
    require "fiddle"
    require "neverblock/server"
    require "socket"
    set = Fiddle::Function.new(Fiddle.dlopen(nil)["setlocale"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOIDP)
    all = 6 # LC_ALL
    abort("no locale") if set.call(all, "de_DE.UTF-8").null?
    NB.run do
      server = NB::Server.new(->(_env) { [200, {}, []] }, bind: "tcp://127.0.0.1:0")
      Fiber.schedule { server.run }
      Fiber.scheduler.yield until server.ready?
      ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close", "bad"].each do |head|
        socket = TCPSocket.new("127.0.0.1", server.port)
        socket.write("#{head}\r\n\r\n")
        p socket.read[/^date: (.*)\r$/i, 1]
      end
      server.stop
    end
  RUBY

  # A library may have set a locale for the whole process.
  def test_dates_are_english
    require "open3"
    require "time"
    Dir.mktmpdir do |folder|
      made = system("localedef", "-i", "de_DE", "-f", "UTF-8", "#{folder}/de_DE.UTF-8", %i[out err] => File::NULL)
      skip "no German locale can be made here" unless made && File.exist?("#{folder}/de_DE.UTF-8")
      before = Time.now
      out, status = Open3.capture2e({"LOCPATH" => folder}, RbConfig.ruby, "-W0", *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", IN_GERMAN)
      assert status.success?, out
      dates = (before.to_i..Time.now.to_i).map { |second| Time.at(second).httpdate.inspect }
      out.lines(chomp: true).each { |date| assert_includes dates, date }
      assert_equal 2, out.lines.size
    end
  end

  def test_several_values_of_one_header
    serve { |_env| [200, {"set-cookie" => %w[a=1 b=2], "x-old" => "c\nd"}, []] }
    answer = get
    %w[set-cookie:\ a=1 set-cookie:\ b=2 x-old:\ c x-old:\ d].each { |line|
 assert_includes answer, "#{line}\r\n" }
  end

  def test_unix_socket
    path = "/tmp/nb-test-#{Process.pid}.sock"
    server = NB::Server.new(HELLO, bind: "unix://#{path}")
    thread = Thread.new { server.run }
    eventually { File.socket?(path) && server.ready? }
    UNIXSocket.open(path) do |socket|
      socket.write("GET / HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n")
      assert_match(/hello\z/, socket.read)
    end
    server.stop
    thread.join(60)
    refute File.exist?(path)
  end

  def test_ipv6
    server = NB::Server.new(HELLO, bind: "tcp://[::1]:0", log: nil)
    thread = Thread.new { server.run }
    eventually { server.ready? }
    socket = TCPSocket.new("::1", server.port)
    socket.write("GET / HTTP/1.1\r\nHost: [::1]:1\r\nConnection: close\r\n\r\n")
    assert_match(/hello\z/, socket.read)
  rescue Errno::EADDRNOTAVAIL
    skip "no IPv6 here"
  ensure
    server&.stop
    thread&.join(5)
  end
end
# rubocop:enable Layout/LineLength

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require_relative "../support/timing"
require_relative "../support/certificates"
require "neverblock/server/tls"
require "tmpdir"

# TLS without a proxy: what goes in and out, what is left open, and how many there may be.
class ServerTlsTest < Minitest::Test
  include ServerTest

  GET = "GET / HTTP/1.1\r\n#{HOST}\r\n".freeze
  def serve_tls(host: "127.0.0.1", **options, &app)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/key", Certificates::KEY.to_pem)
      File.write("#{folder}/cert", Certificates.certificate.to_pem)
      serve(app, bind: "ssl://#{host}:0?cert=#{folder}/cert&key=#{folder}/key", **options)
    end
  end

  def secure(session: nil, **parameters)
    context = OpenSSL::SSL::SSLContext.new
    context.set_params(verify_mode: OpenSSL::SSL::VERIFY_NONE, **parameters)
    socket = OpenSSL::SSL::SSLSocket.new(connect, context)
    socket.sync_close = true
    socket.session = session if session
    Timeout.timeout(60) { socket.connect }
  end

  def fds = Dir.children("/proc/self/fd").size

  REFUSED = {
    "127.0.0.1:0?cert=cert&key=key&verify_mode=force_peer&ca=cert" =>
      /takes cert and key only, not verify_mode, ca: leave that, such as client certificates, to a proxy/,
    "127.0.0.1:0?cert=cert&key=locked" => /cannot read the private key, which must not be encrypted/,
    "127.0.0.1:0?cert=cert&key=other" => /\Abind: ssl:.*mismatch/, "127.0.0.1:0?cert=cert&key=%00" => /\Abind: ssl:.*null/,
    "127.0.0.1:99999?cert=cert&key=key" => /a port is a number from 0 to 65535/,
    "?cert=cert&key=key" => /bind: expected/, "a@b:0/x?cert=cert&key=key#y" => /no file for key/, "" => /no file for cert and key/
  }.freeze

  # The other direction closes it, perhaps while this one waits to close its half.
  def test_the_end_of_a_client_may_come_after_that_of_the_server
    client, gone = IO.pipe
    gone.close
    outside, = UNIXSocket.pair.each(&:close)
    received = Thread::Queue.new
    NB::Server::Tls.allocate.send(:receive, client, outside, received)
    assert_equal 1, received.size
  end

  def test_localhost_is_both_loopbacks
    server = serve_tls(host: "localhost", &HELLO)
    hosts = ["127.0.0.1", *Socket.ip_address_list.select(&:ipv6_loopback?).map(&:ip_address)]
    hosts.each do |host|
      Socket.tcp(host, server.port) do |socket|
        tls = OpenSSL::SSL::SSLSocket.new(socket).connect
        tls.write("GET / HTTP/1.0\r\n\r\n")
        assert_equal "hello", Timeout.timeout(60) { tls.read }.lines.last
        tls.close
      end
    end
  end

  # Whoever asks for client certificates must not get a server that lets everyone in.
  def test_an_address_of_which_nothing_is_ignored
    key = Certificates::KEY
    files = {"key" => key.to_pem, "cert" => Certificates.certificate.to_pem,
             "locked" => key.to_pem(OpenSSL::Cipher.new("aes-128-cbc"), "secret"),
             "other" => OpenSSL::PKey::EC.generate("prime256v1").to_pem}
    Dir.mktmpdir do |folder|
      files.each { |name, text| File.write("#{folder}/#{name}", text) }
      REFUSED.each do |rest, said|
        address = "ssl://#{rest.gsub(/(cert|key)=(\w)/, "\\1=#{folder}/\\2")}"
        assert_match said, assert_raises(ArgumentError, rest) { NB::Server.new(HELLO, bind: address) }.message
      end
    end
  end

  def test_the_application_sees_https_and_who_asks
    serve_tls { |env| [200, {}, [env.values_at("rack.url_scheme", "SERVER_PORT", "REMOTE_ADDR").join(" ")]] }
    socket = secure.tap { |client| client.write(GET) }
    assert_equal "https 443 127.0.0.1", read_response(socket).body
  end

  # What the application sees of a connection that TLS has brought from this address.
  def seen_from(address)
    inside, outside = UNIXSocket.pair
    inside.autoclose = false
    @server.instance_variable_get(:@core).adopt(inside.fileno, true, address)
    outside.write("GET /who HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n")
    outside.read.lines.last
  rescue Errno::EPIPE
    "refused"
  ensure
    outside.close
  end

  # Ruby says fe80::1%eth0. That is not this machine, and neither is who says nothing of the kind.
  def test_a_neighbour_is_not_this_machine
    neighbours = {"fe80::1%eth0" => "fe80::1", "::1" => "::1", "10.0.0.1" => "10.0.0.1", "fe80::1%" => "fe80::1",
                  "nowhere" => "refused", "" => "refused", "1" * 99 => "refused"}
    serve do |env|
      [200, {}, [env["PATH_INFO"] == "/who" ? env["REMOTE_ADDR"] : neighbours.keys.map { |address| seen_from(address) }.join(" ")]]
    end
    assert_equal neighbours.values.join(" "), get.lines.last
  end

  def test_large_bodies_both_ways_in_both_versions
    serve_tls { |env| [200, {}, [env["rack.input"].read.reverse]] }
    body = Random.bytes(3_000_000)
    [OpenSSL::SSL::TLS1_2_VERSION, OpenSSL::SSL::TLS1_3_VERSION].each do |version|
      socket = secure(min_version: version, max_version: version, alpn_protocols: %w[h2 http/1.1])
      assert_equal "http/1.1", socket.alpn_protocol
      2.times do
        writer = Thread.new { socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: #{body.bytesize}\r\n\r\n", body) }
        response = read_response(socket)
        writer.join
        assert_equal body, response.body.reverse
      end
    end
  end

  # A browser would only say that the connection was reset.
  def test_a_request_without_tls_gets_a_word
    serve_tls(&HELLO)
    answer = exchange("GET / HTTP/1.1\r\n#{HOST}X: #{"x" * 10_000}\r\n\r\n", shut: false)
    head, body = answer.split("\r\n\r\n", 2)
    assert_match(/\AHTTP\/1.1 400 Bad Request\r\n.*Content-Length: #{body.bytesize}\r\n/m, head)
    assert_equal "This port speaks HTTPS: ask by https://\n", body
  end

  def test_a_session_is_taken_up_again
    serve_tls(&HELLO)
    first = secure(max_version: OpenSSL::SSL::TLS1_2_VERSION)
    again = secure(session: first.session, max_version: OpenSSL::SSL::TLS1_2_VERSION)
    assert_predicate again, :session_reused?
    again.write(GET)
    assert_equal "hello", read_response(again).body
  end

  def test_a_client_without_a_protocol_of_ours
    serve_tls(&HELLO)
    _, told = capture_subprocess_io do
      error = assert_raises(OpenSSL::SSL::SSLError) { secure(alpn_protocols: %w[h2]) }
      assert_match(/no application protocol/, error.message)
      assert_equal "hello", secure.tap { |client| client.write(GET) }.then { |client| read_response(client).body }
    end
    assert_equal "", told + @log.string
  end

  # curl --http1.0 offers only that.
  def test_a_client_chooses_among_our_protocols
    serve_tls(&HELLO)
    {%w[http/1.0] => "http/1.0", %w[h2 http/1.0 http/1.1] => "http/1.1"}.each do |offered, chosen|
      assert_equal chosen, secure(alpn_protocols: offered).alpn_protocol
    end
  end

  # Whoever ends it, and however.
  def test_a_handshake_that_takes_too_long_is_counted_and_holds_nobody_up
    serve_tls(header_timeout: 0.3, &HELLO)
    slow = Array.new(3) { connect.tap { |socket| socket.write("\x16\x03\x01\x02") } }
    assert_match(/hello\z/, secure.then { |socket| socket.write(GET.sub(HOST, "#{HOST}Connection: close\r\n")) && socket.read })
    slow.each { |socket| assert_empty Timeout.timeout(60) { socket.read } }
    eventually { @server.stats[:timeouts] == 3 }
  end

  # Such as one of the network, which Linux reports here.
  def test_an_error_of_accept_does_not_end_the_listener
    server = serve_tls(&HELLO)
    errors = [Errno::EPROTO, Errno::ENETDOWN, Errno::EPERM, Errno::EMFILE, Errno::ECONNABORTED]
    listener = server.instance_variable_get(:@bindings).first.io
    listener.define_singleton_method(:accept) { errors.empty? ? super() : raise(errors.shift) }
    3.times { assert_equal "hello", secure.tap { |client| client.write(GET) }.then { |client| read_response(client).body } }
    assert_empty errors
  end

  def test_nothing_is_left_open
    serve_tls(idle_timeout: 0.3, &HELLO)
    ways = {
      "the client" => ->(socket) { socket.write(GET) && read_response(socket) && socket.close },
      "the server, asked to" => ->(socket) { socket.write(GET.sub("\r\n\r\n", "\r\nConnection: close\r\n\r\n")) && socket.read && socket.close },
      "the server, by idle_timeout" => ->(socket) { socket.write(GET) && socket.read && socket.close },
      "a reset" => ->(socket) { socket.write(GET) && Reset.on_close(socket.io) && socket.close }
    }
    before = fds
    ways.each_value { |way| 5.times { way.call(secure) } }
    ["no TLS\r\n\r\n", ""].each { |bytes| 5.times { connect.tap { |socket| socket.write(bytes) }.close } }
    eventually { @sockets.each(&:close) && fds <= before }
    assert_equal "", @log.string
  end

  def test_clients_that_are_gone_leave_nothing_in_memory
    server = serve_tls(&HELLO)
    queues = server.instance_variable_get(:@bindings).flat_map do |tls|
      tls.instance_variables.map { |name| tls.instance_variable_get(name) }.grep(Thread::Queue)
    end
    before = fds
    5.times do
      secure.tap { |socket| socket.write(GET) && read_response(socket) }.close
      eventually { fds <= before }
    end
    assert_operator queues.sum(&:size), :<=, 2, "one waits to be accepted, and a stop is told once"
  end

  def test_beyond_the_limit_connections_wait_for_others_to_end
    serve_tls(connections: 2, &HELLO)
    two = Array.new(2) { secure }
    third = Thread.new { secure.tap { |socket| socket.write(GET) }.then { |socket| read_response(socket).body } }
    two.each { |socket| socket.write(GET) && assert_equal("hello", read_response(socket).body) }
    refute third.join(0.1)
    two.first.close
    assert_equal "hello", third.value
  end

  # A client that sends on after its answer would lose it by a reset.
  def test_who_still_sends_gets_the_answer
    serve_tls(body_bytes: 1000, &HELLO)
    answered = 0
    {"POST / HTTP/1.1\r\n#{HOST}Content-Length: 200000\r\n\r\n" => [413, "x" * 200_000],
     "POST / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n#{"500\r\n#{"x" * 1280}\r\n"}" => [413, "500\r\n#{"x" * 1280}\r\n" * 150],
     "rubbish\r\n\r\n" => [400, "x" * 200_000]}.each do |head, (status, rest)|
      [OpenSSL::SSL::TLS1_2_VERSION, OpenSSL::SSL::TLS1_3_VERSION].each do |version|
        client = secure(min_version: version, max_version: version)
        client.write(head)
        answered += 1
        eventually { @server.stats.values_at(:refused, :requests).sum == answered }
        8.times { |i| client.write(rest.byteslice(i * 25_000, 25_000)) } # it has 2 s for that
        assert_equal status, read_response(client).status
        assert_equal "", client.read, "and then close_notify"
      end
    end
    assert_equal 6, @server.stats[:accepted]
  end

  # As without memory. That one does not go on, and nobody else notices.
  # As without TLS: the end of what a client sends need not be announced.
  def test_who_only_ends_its_sending_side_gets_the_answer
    serve_tls { |env| sleep(0.05) && [200, {}, [env["rack.input"].read]] }
    %i[TLS1_2 TLS1_3].each do |version|
      client = secure(max_version: version)
      client.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 3\r\n\r\nabc")
      client.to_io.close_write
      assert_match(/\AHTTP\/1.1 200 OK.*abc\z/m, Timeout.timeout(60) { client.read })
      client.close
      client = secure(max_version: version)
      client.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 3\r\n\r\na")
      client.to_io.close_write
      assert_equal "", Timeout.timeout(60) { client.read }
      client.close
    end
    eventually { @server.stats[:connections].zero? }
    assert_equal "", @log.string
  end

  def test_a_connection_that_the_core_does_not_take
    serve_tls(&HELLO)
    core = @server.instance_variable_get(:@core)
    _, told = capture_subprocess_io do
      core.define_singleton_method(:adopt) { |fd, https, _address| super(fd, https, "nowhere") }
      assert_raises(OpenSSL::SSL::SSLError, Errno::ECONNRESET) { secure.read }
      core.singleton_class.remove_method(:adopt)
      assert_equal "hello", secure.tap { |client| client.write(GET) }.then { |client| read_response(client).body }
    end
    assert_equal "", told + @log.string
  end

  BODIES = {
    "/raises" => [{}, Enumerator.new { |out| (out << "part") && raise("oops") }],
    "/stream" => [{}, ->(stream) { stream.write("part") && raise("oops") }],
    "/framed" => [{"transfer-encoding" => "x"}, Enumerator.new { |out| (out << "part") && raise("oops") }],
    "/chunks" => [{"transfer-encoding" => "chunked"}, Enumerator.new { |out| (out << "4\r\npart\r\n") && raise("oops") }],
    "/slow" => [{}, Enumerator.new { |out| (out << "part") && Timeout.timeout(0.01) { sleep } }],
    "/short" => [{"content-length" => "10"}, %w[part].each],
    "/whole" => [{}, %w[whole].each], "/array" => [{}, %w[whole]]
  }.freeze

  # How a connection ends: with the notice that nothing was cut off, or without.
  def ending(path, version)
    socket = secure
    socket.write("GET #{path} HTTP/#{version}\r\n#{HOST}Connection: close\r\n\r\n")
    [Timeout.timeout(60) { socket.read }, :noticed]
  rescue OpenSSL::SSL::SSLError, Errno::ECONNRESET
    ["", :cut]
  end

  def test_what_only_the_end_tells_to_be_whole_has_no_notice_when_it_breaks
    serve_tls { |env| [200, *BODIES[env["PATH_INFO"]]] }
    %w[/whole /array].product(%w[1.0 1.1]) do |path, version|
      assert_equal ["whole", :noticed], ending(path, version).then { |text, how| [text[/whole/], how] }
    end
    %w[/raises /stream /slow].each { |path| assert_equal :cut, ending(path, "1.0")[1], path }
    {"/framed" => "1.1", "/chunks" => "1.0"}.each { |path, version| assert_equal :cut, ending(path, version)[1], path }
    %w[/raises /stream /slow].each { |path| assert_match(/part\r\n\z/, ending(path, "1.1")[0], path) } # no last chunk
    assert_match(/content-length: 10\r\n.*\r\n\r\npart\z/m, ending("/short", "1.0")[0])
  end

  # The transport's, too: it has not sent all that it was given.
  def test_what_a_stop_cuts_off_has_no_notice
    serve_tls(drain_timeout: 0.2) { |env| [200, {}, env["PATH_INFO"] == "/" ? [LARGE] : ->(stream) { stream.write("part").then { stream.flush } }] }
    clients = [slow, slow("GET /stream HTTP/1.0\r\n\r\n"), slow("GET /stream HTTP/1.1\r\n#{HOST}\r\n")]
    eventually { @server.stats.values_at(:requests, :running) == [1, 2] }
    server, thread = @servers.pop
    server.stop
    assert thread.join(60), thread.backtrace
    clients.each { |client| assert_raises(OpenSSL::SSL::SSLError, Errno::ECONNRESET) { Timeout.timeout(60) { client.read } } }
  end

  LARGE = ("x" * 8_000_000).freeze

  # A client with room for little.
  def slow(request = GET)
    socket = Socket.new(:INET, :STREAM)
    (@sockets ||= []) << socket
    socket.setsockopt(:SOCKET, :RCVBUF, 65_536)
    socket.connect(Addrinfo.tcp("127.0.0.1", @server.port))
    OpenSSL::SSL::SSLSocket.new(socket).tap { |client| client.connect && client.write(request) }
  end

  def test_who_reads_nothing_is_cut_off
    before = fds
    serve_tls(write_timeout: 0.3, connections: 3) { |env| [200, {}, [env["PATH_INFO"] == "/" ? LARGE : "small"]] }
    Array.new(3) { slow }
    fourth = secure # there was no room for it
    fourth.write(GET.sub("/", "/small"))
    assert_equal "small", read_response(fourth).body
    eventually { @server.stats[:timeouts] == 3 }
    @sockets.each(&:close)
    eventually { fds <= before + 10 && @server.stats[:connections].zero? }
  end

  # The socket becomes writable at longer intervals than write_timeout.
  def test_who_reads_slowly_gets_everything
    serve_tls(write_timeout: 1) { [200, {}, [LARGE]] }
    client = slow
    60.times { sleep(0.03) && client.readpartial(10_000) }
    assert_operator client.sysread(100).bytesize, :>, 0
    size = 0
    size += client.readpartial(65_536).bytesize while size < 7_300_000
    assert_equal 0, @server.stats[:timeouts]
  end

  def test_who_reads_nothing_does_not_keep_the_server_from_ending
    serve_tls(write_timeout: nil, drain_timeout: 0.3) { [200, {}, [LARGE]] }
    clients = [slow, slow("GET / HT"), connect] # the last one has not even shaken hands
    eventually { @server.stats[:running].zero? && @server.stats[:requests] == 1 }
    server, thread = @servers.pop
    server.stop
    assert thread.join(60), thread.backtrace
    clients.clear
  end

  # The time for handshakes is a part of it.
  def test_a_drain_takes_no_longer_than_its_timeout
    serve_tls(drain_timeout: 2.5, write_timeout: nil) { [200, {}, [LARGE]] }
    client = slow
    eventually { @server.stats[:requests] == 1 }
    server, thread = @servers.pop
    from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    server.stop
    assert thread.join(60), thread.backtrace
    assert_between 2.3, 4.3, Process.clock_gettime(Process::CLOCK_MONOTONIC) - from # not 4.5
  ensure
    client&.close
  end

  # The core has answered, and what carries the answer to the client has not.
  def test_what_was_answered_arrives_while_the_server_ends
    serve_tls { [200, {}, [LARGE]] }
    client = slow
    eventually { @server.stats[:requests] == 1 }
    server, thread = @servers.pop
    server.stop
    assert_equal LARGE, read_response(client).body
    assert thread.join(60), thread.backtrace
  end

  def test_the_server_ends_after_the_requests_that_run
    go = Thread::Queue.new
    serve_tls { |_env| go.pop && HELLO.call(nil) }
    socket = secure.tap { |client| client.write(GET) }
    eventually { @server.stats[:running] == 1 }
    idle = secure
    server, thread = @servers.pop
    server.stop
    go << true
    assert_equal "hello", read_response(socket).body
    assert thread.join(60)
    [socket, idle].each { |client| assert_empty client.read }
  end
end
# rubocop:enable Layout/LineLength

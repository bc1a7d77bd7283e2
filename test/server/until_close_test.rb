# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "tmpdir"
require "neverblock"
require_relative "helper"

# Bodies of which only the end of the connection tells the end: HTTP/1.0. A client must not take a
# part for the whole. nginx asks like this by default, often over a UNIX socket, which has no
# SO_LINGER.
class ServerUntilCloseTest < Minitest::Test
  include ServerTest

  def over_http_1_0(bind, path)
    socket = bind.start_with?("unix") ? UNIXSocket.new(bind.delete_prefix("unix://")) : TCPSocket.new("127.0.0.1", bind[/\d+\z/])
    (@sockets ||= []) << socket
    socket.tap { socket.write("GET #{path} HTTP/1.0\r\n\r\n") }
  end

  # @yield the address for the server's bind:
  def each_kind_of_socket
    yield "tcp://127.0.0.1:0"
    Dir.mktmpdir { |folder| yield "unix://#{folder}/socket" }
  end

  def part_of(socket)
    Timeout.timeout(60) { socket.gets("\r\n\r\n") && socket.read(4) }
  end

  UNENDED = ->(_env) { [200, {}, ->(stream) { stream.write("part").then { stream.flush } }] }
  BODIES = {"/broken" => Enumerator.new { |out| (out << "part") && raise("oops") }, "/whole" => %w[all of it].each,
            "/stream" => ->(stream) { stream.write("part") && raise("oops") },
            "/large" => Enumerator.new { |out| 50.times { out << ("x" * 50_000) } }}.freeze

  NB::Native.backends.each do |backend|
    define_method("test_a_body_that_breaks_off_ends_with_a_reset_#{backend}") { broken_bodies(backend) }
  end

  def broken_bodies(backend)
    each_kind_of_socket do |bind|
      serve(bind: bind, backend: backend) { |env| [200, {}, BODIES[env["PATH_INFO"]]] }
      ask = ->(path) { over_http_1_0(@server.addresses.first, path) }
      assert_match(/\r\n\r\nallofit\z/, Timeout.timeout(60) { ask.call("/whole").read }, bind)
      assert_equal 2_500_000, Timeout.timeout(60) { ask.call("/large").read }.split("\r\n\r\n").last.bytesize, bind
      %w[/broken /stream].each do |path|
        assert_raises(Errno::ECONNRESET, bind) { Timeout.timeout(60) { ask.call(path).read } }
      end
    end
  end

  def test_a_stop_cuts_a_body_by_a_reset
    each_kind_of_socket do |bind|
      serve(UNENDED, bind: bind, drain_timeout: 0.01)
      socket = over_http_1_0(@server.addresses.first, "/")
      assert_equal "part", part_of(socket)
      @server.stop
      assert_raises(Errno::ECONNRESET, bind) { Timeout.timeout(60) { socket.read } }
    end
  end

  # The kernel closes what a dead process had open.
  def test_a_killed_server_cuts_a_body_by_a_reset
    each_kind_of_socket do |bind|
      told, teller = IO.pipe
      pid = fork do
        server = NB::Server.new(UNENDED, bind: bind, log: nil)
        server.run { teller.puts(server.addresses.first) }
      end
      socket = over_http_1_0(told.gets.chomp, "/")
      assert_equal "part", part_of(socket)
      Process.kill(:KILL, pid)
      assert_raises(Errno::ECONNRESET, bind) { Timeout.timeout(60) { socket.read } }
    ensure
      Process.wait(pid)
      [told, teller].each(&:close)
    end
  end

  # A byte that stays with the kernel, so that there can be a reset, is nobody's next request: not
  # of a kept connection, not of a hijacker, not of a child.
  def test_what_is_left_unread_on_a_unix_socket_is_lost_and_doubled_nowhere
    Dir.mktmpdir do |folder|
      serve(bind: "unix://#{folder}/socket", body_memory_bytes: 10) do |env|
        case env["PATH_INFO"]
        when "/hijack" then env["rack.hijack"].call.then { |io| io.write("got #{io.readpartial(99)}").then { io.close } }
        when "/fork" then Process.wait(fork { exit!(0) })
        end
        [200, {}, ["#{env["PATH_INFO"]} #{env["rack.input"].read}"]]
      end
      socket = UNIXSocket.new("#{folder}/socket")
      (@sockets ||= []) << socket
      body = "x" * 100_000
      keep = "HTTP/1.0\r\nConnection: keep-alive\r\n"
      socket.write("GET /a #{keep}\r\n", "POST /b #{keep}Content-Length: 5\r\n\r\nhel")
      socket.write("lo", "GET /fork #{keep}\r\n")
      socket.write("POST /c #{keep}Content-Length: #{body.size}\r\n\r\n", body)
      answers = Array.new(4) { read_response(socket).body }
      assert_equal ["/a ", "/b hello", "/fork ", "/c #{body}"], answers
      socket.write("GET /hijack #{keep}\r\n")
      eventually { @server.stats[:connections].zero? } # it has the socket
      socket.write("hi")
      assert_equal "got hi", Timeout.timeout(60) { socket.read }
    end
  end
end
# rubocop:enable Layout/LineLength

# frozen_string_literal: true

require "minitest/autorun"
require "neverblock/cli/delay_server"
require "net/http"
require "socket"
require_relative "../support/patience"
require_relative "../support/program"
require_relative "../support/timing"

# `nb delayd` as a program, over real sockets. What a single connection may do to it is tested in
# test/c/delayd_test.c, under sanitizers.
class DelaydTest < Minitest::Test
  include Patience

  def get(socket, path = "/")
    socket.write("GET #{path} HTTP/1.1\r\nHost: test\r\n\r\n")
    answer(socket)
  end

  # @return [Array(String, String)] head and body
  def answer(socket)
    head = socket.gets("\r\n\r\n")
    [head, socket.read(Integer(head[/^Content-Length: (\d+)/, 1]))]
  end

  def test_answers_net_http_after_the_delay_and_never_before
    Program.delayd("--delay", "20") do |port|
      Net::HTTP.start("127.0.0.1", port) do |http|
        [["/", 0.020], ["/?ms=5", 0.005], ["/?ms=28.6&bytes=100", 0.0286], ["/?ms=0", 0]]
          .each do |path, delay|
          start = clock
          response = http.get(path)
          took = clock - start
          assert_equal "200", response.code
          assert_equal path.include?("bytes") ? "done" * 25 : "done", response.body
          assert_operator took, :>=, delay
          assert_in_time took, delay + 1
        end
      end
    end
  end

  def test_body_close_and_head
    Program.delayd("--body", "10", "--close") do |port|
      socket = TCPSocket.new("127.0.0.1", port)
      head, body = get(socket)
      assert_equal "donedonedo", body
      assert_includes head, "Connection: close\r\n"
      assert_nil socket.read(1)
      Net::HTTP.start("127.0.0.1", port) do |http|
        assert_equal "5000000000", http.head("/?bytes=5000000000")["content-length"]
      end
    end
  end

  def test_pipelined_requests_come_back_in_order
    Program.delayd do |port|
      socket = TCPSocket.new("127.0.0.1", port)
      sizes = Array.new(200) { |i| i * 7 % 50 }
      socket.write(sizes.map { |size| "GET /?bytes=#{size} HTTP/1.1\r\n\r\n" }.join)
      assert_equal sizes, (sizes.map { answer(socket).last.size })
    end
  end

  def test_refuses_what_is_no_request_and_goes_on
    errors, = Program.delayd do |port|
      tls = "\x16\x03\x01\x02\x00\x01"
      [tls, "GET\r\n\r\n", "GET /?ms=-5 HTTP/1.1\r\n\r\n", "x" * 9000].each do |bad|
        socket = TCPSocket.new("127.0.0.1", port)
        socket.write(bad)
        assert_match(/\AHTTP\/1.1 400 Bad Request\r\n.*Connection: close\r\n.*\n\z/m, socket.read)
      end
      assert_equal "done", get(TCPSocket.new("127.0.0.1", port)).last
    end
    assert_equal "delayd: 5 connections, 1 requests answered, 4 refused\n", errors
  end

  def test_ten_thousand_connections_at_once
    count = 10_000
    _, hard = Process.getrlimit(:NOFILE)
    skip "the limit of open files is #{hard}" if hard < count + 500
    Process.setrlimit(:NOFILE, hard, hard)
    Program.delayd do |port|
      sockets = Array.new(count) { TCPSocket.new("127.0.0.1", port) }
      sockets.each { |socket| socket.write("GET /?ms=200 HTTP/1.1\r\n\r\n") }
      bodies = sockets.map { |socket| answer(socket).last }
      assert_equal({ "done" => count }, bodies.tally)
    ensure
      sockets&.each(&:close)
    end
  end

  def test_workers_share_the_port
    errors, = Program.delayd("--workers", "3") do |port|
      40.times { assert_equal "done", get(TCPSocket.new("127.0.0.1", port)).last }
    end
    assert_includes errors, "40 connections, 40 requests answered"
  end

  def test_signals_end_it_well_with_requests_waiting
    %i[TERM INT].each do |signal|
      _, status, waiting = Program.delayd(signal: signal) do |port|
        socket = TCPSocket.new("127.0.0.1", port)
        socket.write("GET /?ms=60000 HTTP/1.1\r\n\r\n")
        assert_equal "done", get(TCPSocket.new("127.0.0.1", port)).last
        socket
      end
      assert_nil waiting.read(1)
      assert_equal 0, status.exitstatus, signal.to_s
    end
  end

  def test_wrong_options_are_refused_by_name_value_and_range
    { %w[--port 65536] => "--port: must be from 0 to 65535, got: 65536",
      %w[--delay -1] => "--delay: must be from 0 to 86400000 ms, got: -1",
      %w[--delay soon] => "invalid argument: --delay soon",
      %w[--body -1] => "--body: must be from 0 to 1000000000000, got: -1",
      %w[--workers 0] => "--workers: must be from 1 to 256, got: 0",
      %w[now] => "takes no argument, got: \"now\"" }.each do |arguments, message|
      _, errors, status = Program.nb("delayd", *arguments)
      assert_includes errors, "nb delayd: #{message}"
      assert_equal 2, status.exitstatus
    end
  end

  def test_wrong_arguments_are_refused_by_name_value_and_range
    ranges = { port: "0 to 65535", delay: "0 to 86400.0", body_bytes: "0 to 1000000000000" }
    ranges.each do |name, range|
      [nil, -1, "soon", Float::NAN, 10**20].each do |value|
        error = assert_raises(ArgumentError) { NB::DelayServer.new(name => value) }
        assert_equal "#{name}: must be from #{range}, got: #{value.inspect}", error.message
      end
    end
  end

  def test_a_port_in_use_is_an_error
    Program.delayd do |port|
      _, errors, status = Program.nb("delayd", "--port", port.to_s)
      assert_includes errors, "cannot listen: Address already in use"
      assert_equal 1, status.exitstatus
    end
  end
end

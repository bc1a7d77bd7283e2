# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require_relative "../support/clock"
require "tmpdir"

# How long the server waits for a client: each wait has a limit of its own, whatever else goes on at
# that connection.
class ServerDeadlineTest < Minitest::Test
  include ServerTest
  include Clock

  POST = "POST / HTTP/1.1\r\n#{HOST}".freeze
  # Who waits for the rest of a body, and for how much: the reader, or a fiber of the application.
  BODIES = {
    "in_memory" => [{}, "Content-Length: 100000\r\n\r\n"],
    "chunked" => [{}, "Transfer-Encoding: chunked\r\n\r\n186a0\r\n"],
    "expected" => [{}, "Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n"],
    "streamed" => [{body_streaming: true, body_memory_bytes: 10}, "Content-Length: 100000\r\n\r\n"]
  }.freeze
  READ = ->(env) { [200, {}, [env["rack.input"].read.bytesize.to_s]] }

  # A byte now and then, for as long as the server takes it.
  def drip(socket)
    200.times do # ten seconds
      break if socket.wait_readable(0.05)

      socket.write("x")
    rescue Errno::EPIPE
      break
    end
  end

  def final_response(socket)
    response = read_response(socket)
    response.status == 100 ? final_response(socket) : response
  end

  # Some clients send one behind a body. They would take a 408 for the response to their next request.
  def test_an_empty_line_begins_no_request
    serve(READ, header_timeout: 0.2, idle_timeout: 0.6)
    ["\r\n", ""].each do |line|
      socket = connect
      socket.write(POST, "Content-Length: 3\r\n\r\nabc", line)
      assert_equal "3", read_response(socket).body
      socket.write("\r\n") if line.empty?
      assert_equal "", Timeout.timeout(60) { socket.read }
    end
    assert_equal "", exchange("\r\n", shut: false)
    socket = connect
    2.times do
      socket.write("\r\n")
      eventually { @server.stats[:queued].zero? }
      socket.write(POST, "Content-Length: 3\r\n\r\nabc")
      assert_equal "3", read_response(socket).body
    end
    socket.write("\r\nP")
    assert_equal 408, read_response(socket).status
  end

  BODIES.each do |name, (options, fields)|
    define_method("test_a_body_that_drips_ends_#{name}") do
      serve(READ, body_timeout: 0.3, **options)
      socket = connect
      socket.write(POST, fields)
      read_response(socket) if name == "expected"
      drip(socket)
      assert_equal 408, read_response(socket).status
      eventually { @server.stats.values_at(:running, :timeouts) == [0, 1] }
    end

    # What came fast at first may go on slowly: it is the average that counts.
    define_method("test_a_body_that_is_fast_enough_arrives_#{name}") do
      serve(READ, body_timeout: 1, body_bytes_per_second: 10_000, **options)
      socket = connect
      socket.write(POST, fields, "x" * 99_995)
      5.times { sleep(0.3) && socket.write("x") }
      socket.write("\r\n0\r\n\r\n") if name == "chunked"
      assert_equal "100000", final_response(socket).body
    end
  end

  def test_any_rate
    serve(READ, body_timeout: 1.5, body_bytes_per_second: 0)
    socket = connect
    socket.write(POST, "Content-Length: 8\r\n\r\n")
    8.times { sleep(0.2) && socket.write("x") }
    assert_equal "8", read_response(socket).body
  end

  # The client has sent everything: it is the application that takes its time.
  def test_a_slow_application_is_not_its_clients_fault
    serve(body_timeout: 1, body_streaming: true, body_memory_bytes: 10) do |env|
      parts = Array.new(4) { sleep(0.4) && env["rack.input"].read(100) }
      [200, {}, parts]
    end
    socket = connect
    socket.write(POST, "Content-Length: 400\r\n\r\n", "x")
    socket.write("x" * 399)
    assert_equal "x" * 400, read_response(socket).body
  end

  # Every fiber waits for a body, and the others are told so all the same.
  def test_the_queue_is_answered_while_no_fiber_is_free
    serve(fibers: 2, body_fibers: 2, queue_timeout: 0.2) do |env|
      [200, {}, [env["rack.input"].read]]
    end
    evil = Array.new(2) { connect.tap { |socket| socket.write(POST, BODIES["expected"].last) } }
    evil.each { |socket| assert_equal 100, read_response(socket).status }
    waiting = Array.new(3) { connect.tap { |socket| socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n") } }
    assert_equal [503] * 3, waiting.map { |socket| read_response(socket).status }
    assert_equal [2, 0, 3], @server.stats.values_at(:running, :queued, :rejected_503)
    evil.each(&:close)
    eventually { @server.stats[:running].zero? }
    assert_equal 200, get[/\d{3}/].to_i
  end

  # What the application does itself counts, what it waits for its client does not.
  def test_request_timeout_goes_on_after_a_wait_for_the_client
    own = Thread::Queue.new
    serve(request_timeout: 0.5, body_streaming: true, body_memory_bytes: 10) do |env|
      50.times { own << sleep(0.1) && env["rack.input"].read(1) }
      [200, {}, []]
    end
    socket = connect
    socket.write(POST, "Content-Length: 100\r\n\r\n")
    writer = Thread.new { 50.times { own.pop && sleep(0.02) && socket.write("x") } }
    assert_equal 503, read_response(socket).status
    assert_match(/RequestTimeoutError/, @log.string)
    writer.kill.join
  end

  def test_a_client_may_take_longer_than_request_timeout
    serve(READ, request_timeout: 0.5, body_streaming: true, body_memory_bytes: 10)
    socket = connect
    socket.write(POST, "Content-Length: 50\r\n\r\n")
    10.times { sleep(0.1) && socket.write("x" * 5) }
    assert_equal "50", read_response(socket).body
  end

  # The server computes until header_timeout is over. Meanwhile the client has sent its request.
  def test_who_has_sent_is_not_late_because_the_server_computes
    computing, sent = Thread::Queue.new, Thread::Queue.new
    serve(header_timeout: 1) do |env|
      if env["PATH_INFO"] == "/compute"
        over = computing.push(true) && clock + 1.2
        nil until clock > over && !sent.empty?
      end
      [200, {}, ["done"]]
    end
    busy, other = connect, connect
    eventually { @server.stats[:connections] == 2 }
    busy.write("GET /compute HTTP/1.1\r\n#{HOST}\r\n")
    computing.pop
    sent << other.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal %w[done done], [busy, other].map { |socket| read_response(socket).body }
  end

  # Its head is there before header_timeout is over, and waits for a fiber that reads it.
  def test_who_waits_in_the_queue_is_not_late
    gate = Thread::Queue.new
    serve(fibers: 1, header_timeout: 2) { |env| [200, {}, [env["PATH_INFO"] == "/gate" ? gate.pop : "done"]] }
    late, busy = connect, connect
    over = clock + 2.2
    late.write("GET / HTTP/1.1\r\n")
    busy.write("GET /gate HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    late.write("#{HOST}\r\n")
    eventually { @server.stats[:queued] == 1 }
    sleep(over - clock)
    gate << "open"
    assert_equal %w[open done], [busy, late].map { |socket| read_response(socket).body }
  end

  # A fiber writes what the client does not take, another waits for what it does not send.
  def test_two_waits_at_once_have_a_limit_each
    told = Thread::Queue.new
    body = lambda do |stream|
      Fiber.schedule do
        stream.read(1)
      rescue IOError => error
        told << error.class
      end
      loop { stream.write("x" * 65_536) }
    end
    serve(body_streaming: true, body_memory_bytes: 10, body_timeout: 0.3) { |_env| [200, {}, body] }
    socket = connect
    socket.write(POST, "Content-Length: 100\r\n\r\n")
    assert_equal NB::Server::BodyTimeoutError, Timeout.timeout(60) { told.pop }
    refute @server.stats[:connections].zero?
  end

  # The read that filled the buffer told nothing about more. By the time that a fiber has found that
  # there is none, idle_timeout is over.
  def test_an_idle_connection_that_waited_in_the_queue_still_ends
    Dir.mktmpdir do |folder|
      gate = Thread::Queue.new
      serve(bind: "unix://#{folder}/s", fibers: 1, idle_timeout: 0.1) { |_env| [200, {}, [gate.pop]] }
      first, second, third = Array.new(3) { UNIXSocket.new("#{folder}/s") }
      (@sockets ||= []).push(first, second, third)
      first.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      eventually { @server.stats[:running] == 1 }
      head = "#{POST}Content-Length: 00000\r\n\r\n"
      length = 65_536 - head.bytesize
      second.write(head.sub("00000", length.to_s) + ("x" * length))
      third.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      eventually { @server.stats[:queued] == 2 }
      gate << "first" << "second"
      assert_equal %w[first second], [first, second].map { |socket| read_response(socket).body }
      sleep 0.3 # the timer of the second fires, while the third has the fiber
      gate << "third"
      assert_equal "", Timeout.timeout(60) { second.read }
    end
  end

  # Its request came in time: the server that computed meanwhile has no right to close.
  def test_a_request_that_came_before_idle_timeout_while_another_computed_is_answered
    go = computes = false
    serve(idle_timeout: 3) do |env|
      if env["PATH_INFO"] == "/computes"
        computes = true
        Thread.pass until go
      end
      [200, {}, []]
    end
    other = connect
    other.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    kept = connect
    kept.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal [200, 200], [other, kept].map { |socket| read_response(socket).status }
    other.write("GET /computes HTTP/1.1\r\n#{HOST}\r\n")
    eventually { computes }
    kept.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    sleep 3.3 # until idle_timeout is over
    go = true
    assert_equal 200, read_response(kept).status
  end
end
# rubocop:enable Layout/LineLength

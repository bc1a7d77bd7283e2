# frozen_string_literal: true

require_relative "helper"
require "neverblock"

# The server on a backend that tells a state as long as it lasts (poll), not once (epoll).
class ServerLevelTest < Minitest::Test
  include ServerTest

  def serve(app = nil, **options, &block) = super(app, backend: :poll, **options, &block)

  # Every loop of this process is idle then, so what it computes is a loop that spins.
  def assert_quiet
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    sleep 0.2
    assert_operator Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before, :<, 0.1
  end

  def request(fields = "") = "GET / HTTP/1.1\r\n#{HOST}#{fields}\r\n"

  def sent_bytes = @server.stats[:response_bytes]

  def answered(socket) = read_response(socket).status

  def test_an_idle_connection_costs_nothing
    serve { [200, {}, []] }
    socket = connect
    assert_quiet
    2.times do
      socket.write(request)
      assert_equal 200, answered(socket)
      assert_quiet
    end
  end

  def test_requests_that_wait_behind_one_that_runs_cost_nothing
    gate = Thread::Queue.new
    serve { [200, {}, [gate.pop]] }
    socket = connect
    socket.write(request * 3)
    assert_quiet
    3.times { gate << "x" }
    assert_equal [200] * 3, Array.new(3) { answered(socket) }
  end

  def test_a_client_that_closes_while_its_request_runs_costs_nothing
    gate, gone = Thread::Queue.new, Thread::Queue.new
    serve do |env|
      gone << env["neverblock.exchange"]
      [200, {}, [gate.pop]]
    end
    socket = connect
    socket.write(request)
    exchange = gone.pop
    refute_predicate exchange, :client_gone?
    socket.close
    eventually { exchange.client_gone? }
    assert_quiet
    gate << "x"
  end

  def test_a_full_server_costs_nothing_and_goes_on
    serve(connections: 1) { [200, {}, []] }
    first, second = connect, connect
    second.write(request)
    assert_quiet
    first.close
    assert_equal 200, answered(second)
  end

  def test_a_client_that_reads_slowly_costs_nothing_and_gets_all
    serve { [200, {"content-length" => "20000000"}, ["x" * 20_000_000]] }
    socket = connect
    socket.write(request)
    socket.wait_readable(10)
    eventually { sent_bytes.tap { sleep 0.05 } == sent_bytes }
    assert_quiet
    assert_equal 20_000_000, read_response(socket).body.bytesize
  end

  def test_a_body_comes_in_parts
    serve { |env| [200, {}, [env["rack.input"].read]] }
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Expect: 100-continue\r\nContent-Length: 6\r\n\r\n")
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", Timeout.timeout(60) { socket.readpartial(25) }
    %w[ab cd].each { |part| socket.write(part) && assert_quiet }
    socket.write("ef")
    assert_equal "abcdef", read_response(socket).body
  end

  # The second gets the end of the body with no event that would wake the first.
  def test_a_fiber_that_takes_the_end_of_a_body_wakes_the_other
    socket, parts = nil, Thread::Queue.new
    serve(body_streaming: true, body_memory_bytes: 0) do |env|
      readers = Array.new(2) do
        NB.async do
          while (part = env["neverblock.exchange"].body_part)
            socket.write("bcdef") if part == "a"
            parts << part
          end
        end
      end
      readers.each(&:wait)
      [200, {}, [Array.new(parts.size) { parts.pop }.join]]
    end
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Expect: 100-continue\r\nContent-Length: 6\r\n\r\n")
    Timeout.timeout(60) { socket.readpartial(25) }
    assert_quiet
    socket.write("a")
    assert_equal "abcdef", Timeout.timeout(60) { read_response(socket).body }
  end
end

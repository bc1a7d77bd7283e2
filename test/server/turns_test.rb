# frozen_string_literal: true

require_relative "helper"

# Who goes first when the core is full: requests that can go on, then others.
class ServerTurnsTest < Minitest::Test
  include ServerTest

  # Computes for so many seconds, whatever the machine is.
  def compute(seconds)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
  end

  def ask(path, count = 1)
    request = "GET #{path} HTTP/1.1\r\n#{HOST}\r\n"
    Array.new(count) { connect.tap { |socket| socket.write(request) } }
  end

  def test_few_are_in_hand_where_each_computes
    running = peak = 0
    serve do |_env|
      peak = [peak, running += 1].max
      compute(0.002)
      sleep(0.001)
      compute(0.002)
      running -= 1
      [200, {}, []]
    end
    assert_equal [200] * 64, ask("/", 64).map { |socket| read_response(socket).status }
    assert_includes 1..8, peak
  end

  def test_all_are_in_hand_where_each_waits
    running = 0
    gate = Thread::Queue.new
    serve do |_env|
      running += 1
      gate.pop
      [200, {}, []]
    end
    sockets = ask("/", 64)
    eventually { running == 64 }
    64.times { gate << true }
    assert_equal [200] * 64, sockets.map { |socket| read_response(socket).status }
  end

  def test_others_begin_beside_requests_that_can_always_go_on
    ended = false
    serve do |env|
      if env["PATH_INFO"] == "/busy"
        compute(0.001) || sleep(0) until ended
      end
      [200, {}, []]
    end
    busy = ask("/busy", 3)
    eventually { @server.stats[:running] == 3 }
    3.times { assert_equal 200, read_response(ask("/").first).status }
    ended = true
    assert_equal [200] * 3, busy.map { |socket| read_response(socket).status }
  end
end

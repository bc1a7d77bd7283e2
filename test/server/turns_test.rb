# frozen_string_literal: true

require_relative "helper"
require "rbconfig"
require "tempfile"

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

  # As pages do that ask a database often: each answer sends its request behind all that are ready.
  def test_few_are_in_hand_where_each_computes_in_many_turns
    running = peak = 0
    serve do |_env|
      peak = [peak, running += 1].max
      30.times { compute(0.0003) || sleep(0) }
      running -= 1
      [200, {}, []]
    end
    assert_equal [200] * 32, ask("/", 32).map { |socket| read_response(socket).status }
    assert_includes 1..12, peak
  end

  def test_others_begin_beside_fibers_that_never_wait
    gate = Thread::Queue.new
    busy = true
    serve do |env|
      case env["PATH_INFO"]
      when "/busy" then 8.times { Fiber.schedule { sleep(0) while busy } }
      when "/held" then gate.pop
      end
      [200, {}, []]
    end
    assert_equal 200, read_response(ask("/busy").first).status
    held = ask("/held", 6)
    assert_equal [200] * 3, ask("/", 3).map { |socket| read_response(socket).status }
    6.times { gate << true }
    assert_equal [200] * 6, held.map { |socket| read_response(socket).status }
  ensure
    busy = false
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

  # Reads as fast as it can, on another core.
  DOWNLOAD = <<~'RUBY'
    require "socket"
    socket = TCPSocket.new("127.0.0.1", Integer(ARGV[0]))
    socket.write("GET /download HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    size = 0
    while (bytes = socket.read_nonblock(1 << 20, buffer ||= String.new, exception: false))
      bytes == :wait_readable ? socket.wait_readable : size += bytes.size
    end
    print size
  RUBY

  BODIES = {"a_file" => ->(file) { file }, "strings" => ->(_file) { ["x" * 400_000] * 1000 }}.freeze

  # @return [Integer] the most bytes that left between two turns of the loop
  def most_at_a_time(ended)
    last = most = 0
    until ended.call
      sleep(0.0001)
      most, last = [most, (sent = @server.stats[:response_bytes]) - last].max, sent
    end
    most
  end

  # Written until its client falls behind, the answer would leave in steps of a hundred megabytes.
  BODIES.each do |name, body|
    define_method("test_others_have_their_turn_beside_a_download_of_#{name}") do
      Tempfile.create("large") do |file|
        file.truncate(400_000_000)
        ended = false
        serve do |env|
          next [200, {}, body.call(File.open(file.path))] if env["PATH_INFO"] == "/download"

          [200, {}, [most_at_a_time(-> { ended }).to_s]]
        end
        watch = ask("/").first
        eventually { @server.stats[:running] == 1 }
        size = IO.popen([RbConfig.ruby, "-e", DOWNLOAD, @server.port.to_s], &:read)
        ended = true
        assert_operator Integer(size), :>=, 400_000_000
        assert_operator Integer(read_response(watch).body), :<, 10_000_000
      end
    end
  end

  # One gives way in the middle of a write, the other's write sends the rest of both: no event of
  # the socket tells the first one.
  def test_a_write_that_another_completes_ends
    large, small = "x" * 2_300_000, "x" * 20_000
    body = lambda do |stream|
      20.times do
        ended = Thread::Queue.new
        Fiber.schedule { stream.write(large) && ended << true }
        2.times { stream.write(small) }
        ended.pop
      end
      stream.close
    end
    serve(write_timeout: 5) { |env| [200, {}, env["PATH_INFO"] == "/download" ? body : []] }
    size = IO.popen([RbConfig.ruby, "-e", DOWNLOAD, @server.port.to_s], &:read)
    assert_operator Integer(size), :>=, 20 * (large.size + 2 * small.size)
    assert_equal 0, @server.stats[:timeouts]
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

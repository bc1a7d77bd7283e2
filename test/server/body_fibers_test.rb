# frozen_string_literal: true

require_relative "helper"
require "digest"

# Clients that send their bodies slowly hold some fibers, and never all of them.
class ServerBodyFibersTest < Minitest::Test
  include ServerTest

  STREAMING = {body_streaming: true, body_memory_bytes: 1000}.freeze
  # What a client announces, and the options by which the application runs before the body is here.
  BODIES = {
    "expected" => [{}, "Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n"],
    "streamed" => [STREAMING, "Content-Length: 2000\r\n\r\n"],
    "chunked" => [STREAMING, "Transfer-Encoding: chunked\r\n\r\n7d0\r\n"],
    "both" => [STREAMING, "Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n"]
  }.freeze
  CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"

  def begin_body(fields)
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}", fields)
    assert_equal CONTINUE, Timeout.timeout(60) { socket.read(25) } if fields.start_with?("Expect")
    socket.write("x" * 1000)
    socket
  end

  BODIES.each do |name, (options, fields)|
    define_method("test_slow_bodies_leave_fibers_for_others_#{name}") do
      serve(fibers: 4, body_timeout: 30, queue_timeout: 30, **options) do |env|
        [200, {}, [env["rack.input"].read.to_s.bytesize.to_s]]
      end
      slow = Array.new(10) { begin_body(fields) }
      eventually { @server.stats.values_at(:running, :queued) == [2, 0] }
      3.times { assert_match(/\r\n\r\n0\z/, get) }
      eventually { @server.stats[:running] == 2 } # the others have ended
      slow.each { |socket| socket.write("x" * 1000, name == "chunked" ? "\r\n0\r\n\r\n" : "") }
      slow.each { |socket| assert_equal "2000", read_response(socket).body }
    end
  end

  READERS = {
    "read" => ->(input, &part) { part.call(input.read) },
    "each_part" => ->(input, &part) { input.each_part(&part) },
    "each" => ->(input, &part) { input.each(&part) }
  }.freeze

  # In memory, on loan, in a file: the application reads them as it would have while they came.
  def test_a_body_that_had_to_wait_reads_as_one_that_streams
    serve(body_fibers: 0, **STREAMING) do |env|
      input = env["rack.input"]
      digest = Digest::SHA256.new
      READERS[env["PATH_INFO"].delete("/")].call(input) { |part| digest << part }
      [200, {}, ["#{input.class} #{digest} #{input.read(1).inspect}"]]
    end
    socket = connect
    [500, 100_000, 5_000_000].product(READERS.keys) do |size, name|
      body = Random.bytes(size)
      before = @server.stats[:request_bytes]
      socket.write("POST /#{name} HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n")
      socket.write("#{size.to_s(16)}\r\n", body)
      eventually { @server.stats[:request_bytes] > before + size }
      socket.write("\r\n0\r\n\r\n") # not before: a body that comes with its head is a StringIO
      assert_equal "NB::Server::StreamedInput #{Digest::SHA256.hexdigest(body)} nil",
        read_response(socket).body
    end
  end

  # It had been told to go on just before: that line must neither follow the answer nor end the
  # connection while the client still sends.
  def test_a_body_that_is_refused_right_after_continue
    serve(body_fibers: 0) { |env| [200, {}, [env["rack.input"].read]] }
    10.times do
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}Expect: 100-continue\r\n" \
                   "Transfer-Encoding: chunked\r\n\r\n" \
                   "20000\r\n#{"x" * 0x20000}\r\n5\r\nwrong, and more\r\n")
      answer = Timeout.timeout(60) { socket.read }
      assert_match(/\A(#{CONTINUE})?HTTP\/1\.1 400 .*\n\z/m, answer)
      3.times { socket.write("x" * 1000) && sleep(0.005) }
    end
  end

  REFUSE = ->(_env) { [403, {}, ["no"]] }

  # Whoever is refused unread gets no "100 Continue": the application ran before the body came.
  def test_who_has_ended_counts_no_longer
    serve(REFUSE, fibers: 2)
    3.times do
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}#{BODIES["expected"][1]}")
      assert_equal 403, read_response(socket).status
    end
  end

  def test_whose_body_is_here_counts_no_longer
    gate = Thread::Queue.new
    serve(fibers: 3) do |env|
      next REFUSE.call(env) if env["PATH_INFO"] == "/refused"

      size = env["rack.input"].read.bytesize
      gate.pop
      [200, {}, [size.to_s]]
    end
    first = begin_body(BODIES["expected"][1])
    first.write("x" * 1000)
    eventually { gate.num_waiting == 1 }
    second = connect
    second.write("POST /refused HTTP/1.1\r\n#{HOST}#{BODIES["expected"][1]}")
    assert_equal 403, read_response(second).status
    gate << true
    assert_equal "2000", read_response(first).body
  end

  def test_half_of_the_fibers_by_default
    defaults = {{} => 512, {fibers: 9} => 4, {fibers: 1} => 1, {body_fibers: 0} => 0}
    defaults.each do |options, count|
      assert_equal count, NB::Server::Options.new(**options)[:body_fibers]
    end
    assert_raises(ArgumentError) { NB::Server::Options.new(body_fibers: -1) }
  end
end

# frozen_string_literal: true

require_relative "helper"
require_relative "../support/timing"
require "digest"
require "tempfile"

# Request bodies that the application reads while they arrive.
class ServerStreamedInputTest < Minitest::Test
  include ServerTest

  POST = "POST / HTTP/1.1\r\n#{HOST}".freeze
  CHUNKED = "#{POST}Transfer-Encoding: chunked\r\n\r\n".freeze

  def serve_streaming(**options, &app)
    serve(body_streaming: true, body_memory_bytes: 1000, **options, &app)
  end

  def frame(part) = "#{part.bytesize.to_s(16)}\r\n#{part}\r\n"

  # Each part is sent when the application has seen the one before.
  def test_parts_are_seen_while_the_rest_is_not_sent
    {"#{POST}Content-Length: 3000\r\n\r\n" => ->(part) { part },
     CHUNKED => ->(part) { frame(part) }}.each do |head, framed|
      seen = Thread::Queue.new
      serve_streaming do |env|
        env["rack.input"].each_part { |part| seen << part }
        [200, {}, ["done"]]
      end
      socket = connect
      socket.write(head)
      %w[a b c].each do |letter|
        socket.write(framed.call(letter * 1000))
        got = +""
        got << seen.pop while got.bytesize < 1000
        assert_equal letter * 1000, got
      end
      socket.write("0\r\n\r\n") if head == CHUNKED
      assert_equal "done", read_response(socket).body
    end
  end

  def test_small_and_whole_bodies_are_in_memory
    serve_streaming { |env| [200, {}, [env["rack.input"].class.name]] }
    socket = connect
    socket.write("#{POST}Content-Length: 1000\r\n\r\n")
    socket.write("x" * 1000)
    assert_equal "StringIO", read_response(socket).body
    socket.write("#{CHUNKED}#{frame("abc")}0\r\n\r\n")
    assert_equal "StringIO", read_response(socket).body
    socket.write("#{CHUNKED}#{frame("abc")}")
    socket.flush
    assert_equal "NB::Server::StreamedInput", read_response(socket).body
  end

  READERS = {
    "read" => ->(input) { input.read },
    "read-7" => ->(input) { collect { input.read(7) } },
    "read-buffer" => lambda do |input|
      buffer = +""
      all = +""
      all << buffer while input.read(70_000, buffer)
      all
    end,
    "readpartial" => ->(input) { collect { input.readpartial(5000) } },
    "gets" => ->(input) { collect { input.gets } },
    "each" => ->(input) { input.enum_for(:each).to_a.join }
  }.freeze

  def self.collect
    all = +"".b
    while (part = yield)
      all << part
    end
    all
  rescue EOFError
    all
  end

  READERS.each_key do |name|
    define_method("test_#{name.tr("-", "_")}_gives_the_same_bytes") do
      serve_streaming { |env| [200, {}, [READERS.fetch(name).call(env["rack.input"])]] }
      body = Array.new(20_000) { |i| "line #{i * i}\n" }.join
      socket = connect
      writer = Thread.new do
        2.times { socket.write("#{POST}Content-Length: #{body.bytesize}\r\n\r\n#{body}") }
        socket.write(CHUNKED)
        body.scan(/.{1,30000}/m) { |part| socket.write(frame(part)) }
        socket.write("0\r\n\r\n")
      end
      3.times { assert_equal body, read_response(socket).body }
      writer.join
    end
  end

  # What a read leaves is not copied: of 4 MB that takes a second for 2,000 reads.
  def test_small_reads_do_not_copy_what_is_left
    parts = Struct.new(:left) { def body_part = left.shift }
    input = NB::Server::StreamedInput.new(parts.new(["x" * 4_000_000, "y" * 10]))
    start = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    2_000.times { assert_equal "x", input.read(1) }
    assert_in_time Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - start, 0.2
    assert_equal 3_998_000, input.unread.bytesize
    assert_equal 3_998_000, input.readpartial(5_000_000).bytesize
    assert_equal ["y" * 10, nil], [input.gets, input.gets]
  end

  # As a File gives them, however the bytes arrive.
  ENDS = [[], ["\n"], ["\r\n"], [nil], [""], ["bb"], ["x" * 40], [3], [0], [-1], [nil, 4], ["", 3],
          ["bb", 2], ["\n", nil], [nil, nil], ["\n", -1], [2.9], [:a], [1, 2], %w[a b], [1, 2, 3],
          ["\xC3\xA4".b]].freeze
  TEXT_OF_LINES = "\n\n\na\r\n\n\nbb\nccc\n\n\n\ndd\r\n\re bb\xC3\xA4f\n\ng\r".b

  def lines(input, ends, chomp)
    [Array.new(14) { input.gets(*ends, chomp: chomp) }, input.read(1), input.gets, input.read]
  rescue ArgumentError, TypeError => error
    [error.class, error.message]
  end

  def all_lines(input, ends, chomp)
    [input.each(*ends, chomp: chomp).to_a, input.read]
  rescue ArgumentError, TypeError => error
    [error.class, error.message.delete_suffix("_line")]
  end

  def test_lines_are_those_of_a_file
    parts = Struct.new(:left) { def body_part = left.shift }
    Tempfile.create(binmode: true) do |file|
      file.write(TEXT_OF_LINES)
      ENDS.product([false, true], [1, 2, 7, 100].product(%i[lines all_lines])) do |ends, chomp, way|
        # Ruby 3.1 chomps where nothing separates.
        next if chomp && [String, Integer].none? { |kind| ends.empty? || kind === ends[0] }

        file.rewind
        size, ask = way
        bytes = TEXT_OF_LINES.scan(/.{1,#{size}}/mn)
        input = NB::Server::StreamedInput.new(parts.new(bytes))
        assert_equal send(ask, file, ends, chomp), send(ask, input, ends, chomp),
                     [ends, chomp, size, ask].inspect
      end
    end
  end

  # Each line is there before the next is sent.
  def test_a_line_does_not_wait_for_the_next
    waits = Struct.new(:left) { def body_part = left.shift || raise("waits") }
    {["\n"] => "a\n", [] => "a\n", ["a"] => "a", [2] => "a\n", [nil, 1] => "a"}.each do |ends, line|
      input = NB::Server::StreamedInput.new(waits.new(["a\n"]))
      assert_equal line, input.gets(*ends)
    end
  end

  def test_wrong_lengths_are_refused_as_by_io
    parts = Struct.new(:left) { def body_part = left.shift }
    input = NB::Server::StreamedInput.new(parts.new(["abc"]))
    file = StringIO.new("abc")
    %i[read readpartial].product([-1, "a"]).each do |name, length|
      expected = assert_raises(ArgumentError, TypeError) { file.public_send(name, length) }
      error = assert_raises(expected.class) { input.public_send(name, length) }
      assert_equal expected.message, error.message
    end
    assert_raises(FrozenError) { input.read(1, "".freeze) }
    assert_equal ["ab", "", "c"], [input.read(2.9), input.readpartial(0), input.read]
    assert_equal "", input.readpartial(0)
  end

  # CSV asks for parts of a size, and for lines by a separator.
  def test_csv_reads_the_body_while_it_arrives
    require "csv"
    parts = Struct.new(:left) { def body_part = left.shift }
    text = Array.new(3_000) { |i| "#{i},\"a\nb\",#{"x" * (i % 50)}\n" }.join
    input = NB::Server::StreamedInput.new(parts.new(text.scan(/.{1,999}/m)))
    assert_equal CSV.parse(text), CSV.new(input).to_a
  end

  def streamed(bytes)
    NB::Server::StreamedInput.new(Struct.new(:left) { def body_part = left.shift }
                                  .new(bytes.scan(/.{1,700}/mn)))
  end

  # They ask an IO for more than Rack does.
  def test_what_parses_an_io_parses_the_body
    require "rubygems/package"
    require "yaml"
    tar = StringIO.new("".b)
    Gem::Package::TarWriter.new(tar) do |writer|
      %w[a b].each { |name| writer.add_file(name, 0o644) { |file| file.write(name * 5_000) } }
    end
    files = Gem::Package::TarReader.new(streamed(tar.string)).map { |one| [one.full_name, one.read] }
    assert_equal [["a", "a" * 5_000], ["b", "b" * 5_000]], files
    assert_equal [*1..999], YAML.safe_load(streamed([*1..999].to_yaml))
  end

  def test_other_readers_are_those_of_a_file
    text = "a\r\nb\n\nc".b
    reads = [->(io) { [io.getbyte, io.pos, io.readline, io.readlines(chomp: true), io.pos] },
             ->(io) { [io.first, io.eof, io.map(&:size), io.eof, io.getbyte] },
             ->(io) { [io.external_encoding, io.binmode.equal?(io), io.each_with_index.to_a] },
             ->(io) { io.read && (io.readline rescue $!.class) }]
    reads.each do |read|
      file = Tempfile.new(binmode: true)
      file.write(text)
      file.rewind
      assert_equal read.call(file.to_io), read.call(streamed(text))
      file.close!
    end
  end

  # Threads take turns at any call: within a read, too.
  def test_what_threads_read_goes_to_one_of_them
    parts = Struct.new(:left) { def body_part = left.shift.tap { Thread.pass } }
    input = NB::Server::StreamedInput.new(parts.new(Array.new(4_000, "abcdef")))
    reads = [-> { input.each_part { |part| break part } }, -> { input.read(4) },
             -> { input.readpartial(9) }, -> { input.eof? ? nil : "" }]
    turns = TracePoint.new(:call, :c_call) { Thread.pass if rand < 0.05 }
    turns.enable
    got = reads.map { |read| Thread.new { Array.new(1_000) { read.call } } }.flat_map(&:value)
    got << input.read
    assert_equal 24_000, got.grep(String).sum(&:bytesize)
  ensure
    turns.disable
  end

  def test_the_ends_are_those_of_io
    serve_streaming do |env|
      input = env["rack.input"]
      input.read
      ends = [input.read, input.read(3), input.gets, input.read(0)]
      [200, {}, [(ends << begin
        input.readpartial(1)
      rescue EOFError => error
        error.class
      end).inspect]]
    end
    socket = connect
    socket.write("#{CHUNKED}#{frame("x")}")
    socket.write("0\r\n\r\n")
    assert_equal '["", nil, nil, "", EOFError]', read_response(socket).body
  end

  def test_reading_and_writing_at_the_same_time
    body = lambda do |stream|
      reading = Fiber.schedule do
        while (part = stream.read(3))
          stream.write(part.upcase)
        end
        stream.close
      end
      reading.alive?
    end
    serve_streaming { |_env| [200, {}, body] }
    socket = connect
    socket.write(CHUNKED)
    nil until socket.gets("\r\n") == "\r\n"
    %w[abc def].each do |part|
      socket.write(frame(part))
      assert_equal frame(part.upcase), Timeout.timeout(60) { socket.read(8) }
    end
    socket.write("0\r\n\r\n")
    assert_equal "0\r\n\r\n", Timeout.timeout(60) { socket.read }
  end

  def test_bodies_that_end_early_or_are_too_large
    serve_streaming(body_bytes: 5000) { |env| [200, {}, [env["rack.input"].read]] }
    assert_match(/\AHTTP\/1.1 400 /, exchange("#{POST}Content-Length: 3000\r\n\r\nabc"))
    assert_match(/\AHTTP\/1.1 400 /, exchange("#{CHUNKED}3\r\nabc"))
    assert_match(/\AHTTP\/1.1 400 /, exchange("#{CHUNKED}3\r\nabc\r\nx\r\n", shut: false))
    assert_match(/\AHTTP\/1.1 413 /, exchange("#{CHUNKED}#{frame("x" * 5001)}", shut: false))
    assert_match(/BodyError/, @log.string)
  end

  # It would only be thrown away.
  def test_a_chunk_that_is_announced_too_large_is_not_waited_for
    {"#{CHUNKED}1389\r\n" => {}, "#{CHUNKED}#{frame("x" * 4000)}3e9\r\nx" => {},
     "#{CHUNKED}1389\r\nx" => {body_streaming: false}}.each do |request, options|
      serve_streaming(body_bytes: 5000, **options) { |env| [200, {}, [env["rack.input"].read]] }
      assert_match(/\AHTTP\/1.1 413 /, exchange(request, shut: false))
    end
  end

  def test_each_refusal_has_a_class_and_a_status_of_its_own
    told = Thread::Queue.new
    app = lambda do |env|
      told << env["rack.input"].readpartial(9)
      env["rack.input"].read
    rescue NB::Server::BodyError => error
      told << [error.class, error.http_status]
      raise
    end
    {"1389\r\n" => [:BodyTooLargeError, 413], "x" => [:BodyError, 400],
     "1;#{"a" * 20_000}" => [:BodyFieldsTooLargeError, 431],
     "" => [:BodyTimeoutError, 408]}.each do |rest, (name, status)|
      serve_streaming(body_bytes: 5000, body_timeout: rest.empty? ? 0.1 : 60, &app)
      socket = connect
      socket.write("#{CHUNKED}#{frame("a")}")
      assert_equal "a", Timeout.timeout(60) { told.pop }
      socket.write(rest)
      assert_match(/\AHTTP\/1.1 #{status} /, Timeout.timeout(60) { socket.gets })
      assert_equal [NB::Server.const_get(name), status], Timeout.timeout(60) { told.pop }
    end
  end

  def test_a_silent_client_ends_the_read
    told = Thread::Queue.new
    serve_streaming(body_timeout: 0.1) do |env|
      env["rack.input"].read
    rescue NB::Server::BodyError => error
      told << error
      raise
    end
    socket = connect
    socket.write("#{POST}Content-Length: 3000\r\n\r\nabc")
    assert_match(/\AHTTP\/1.1 408 /, Timeout.timeout(60) { socket.read })
    assert_match(/came too slowly/, told.pop.message)
  end

  def test_an_answer_without_reading_arrives_and_closes
    serve_streaming { |_env| [403, {}, ["no"]] }
    socket = connect
    socket.write("#{POST}Content-Length: 1000000\r\n\r\n")
    socket.write("x" * 300_000)
    answer = read_response(socket)
    assert_equal [403, "no", "close"], [answer.status, answer.body, answer.headers["connection"]]
  end

  def test_continue_is_sent_at_the_first_read
    serve_streaming { |env| [200, {}, [env["rack.input"].read(4), env["rack.input"].read]] }
    socket = connect
    socket.write("#{POST}Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n")
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", Timeout.timeout(60) { socket.read(25) }
    socket.write("x" * 2000)
    assert_equal "x" * 2000, read_response(socket).body
  end

  # Counted in bytes that came between two short sleeps of another fiber: 40 MB are too many.
  def test_a_fast_upload_leaves_the_others_their_turn
    seen = last = most = 0
    over = false
    serve_streaming do |env|
      Fiber.schedule do
        sleep(0.0005) && (most, last = [most, seen - last].max, seen) until over
      end
      digest = Digest::SHA256.new
      env["rack.input"].each_part { |part| (digest << part) && seen += part.bytesize }
      over = true
      [200, {}, [digest.hexdigest]]
    end
    part = Random.bytes(1 << 20)
    expected = Digest::SHA256.hexdigest(part * 40) # before: it would hold the server's thread up
    socket = connect
    socket.write("#{POST}Content-Length: #{40 << 20}\r\n\r\n")
    40.times { socket.write(part) }
    assert_equal expected, read_response(socket).body
    assert_includes 1..5_000_000, most
  end

  # The request ends by an exception while another fiber waits in a write of its stream.
  def test_who_waits_for_an_ended_request_is_told
    told = Thread::Queue.new
    gate = Thread::Queue.new
    body = lambda do |stream|
      Fiber.schedule do
        loop { stream.write("x" * 65_536) }
      rescue SystemCallError, IOError => error
        told << error.class
      end
      gate.pop
      raise "oops"
    end
    serve { |env| [200, {}, env["PATH_INFO"] == "/" ? body : ["alive"]] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:response_bytes] > 65_536 }
    gate << true
    kinds = [Errno::EPIPE, *(IOError if ENV["NB_CHAOS"])] # there it may be between two writes
    assert_includes kinds, Timeout.timeout(60) { told.pop }
    assert_match(/alive\z/, get("/other"))
  end
end

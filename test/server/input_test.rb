# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require "open3"
require "tmpdir"

# However a body came, the application reads it as it would read a StringIO.
class ServerInputTest < Minitest::Test
  include ServerTest

  BODY = "h\xC3\xA9llo\nworld\nlast".b.freeze
  CHUNKS = "5\r\n#{BODY[0, 5]}\r\nc\r\n#{BODY[5..]}\r\n0\r\n\r\n".freeze
  LENGTH = "Content-Length: #{BODY.bytesize}\r\n".freeze

  # Name => options, fields, what is sent once the application runs.
  WAYS = {
    "nothing" => [{}, "", ""], "no_bytes" => [{}, "Content-Length: 0\r\n", ""],
    "memory" => [{}, LENGTH, BODY], "chunked" => [{}, "Transfer-Encoding: chunked\r\n", CHUNKS],
    "a_file" => [{body_memory_bytes: 4, bodies_memory_bytes: 0}, LENGTH, BODY],
    "expect" => [{}, "#{LENGTH}Expect: 100-continue\r\n", BODY],
    "streamed" => [{body_streaming: true, body_memory_bytes: 4}, LENGTH, BODY],
    "streamed_chunks" => [{body_streaming: true, body_memory_bytes: 4}, "Transfer-Encoding: chunked\r\n", CHUNKS]
  }.freeze

  READS = [
    ->(input) { [input.read(0), input.read, input.read, input.read(1), input.read(0), input.gets] },
    ->(input) { [input.read(5), input.read(nil), input.read(nil, +"rest")] },
    ->(input) { [input.read(5, buffer = String.new("old")), buffer, input.read(100, buffer), buffer, input.read(5, buffer), buffer] },
    ->(input) { [input.gets, input.eof?, input.gets, input.gets, input.gets, input.eof?] },
    ->(input) { [input.each { |line| line }.equal?(input), input.read(1)] },
    ->(input) { input.each.to_a },
    ->(input) { [input.read(3)&.encoding, input.gets&.encoding, input.read.encoding] },
    ->(input) { IO.copy_stream(input, copy = StringIO.new(String.new)) && copy.string },
    ->(input) { [input.gets(3), input.gets("l", chomp: true), input.gets("l", 4), input.gets(nil), input.gets(nil)] },
    ->(input) { input.each(chomp: true).to_a },
    ->(input) { input.each("l", 4).to_a },
    ->(input) { [input.getbyte, input.pos, input.readlines, input.map(&:size), input.getbyte] },
    ->(input) { [-1, "a"].map { |length| input.read(length) rescue "#{$!.class}: #{$!.message}" } },
    ->(input) { input.each(0) { nil } rescue $!.class },
    ->(input) { input.close }
  ].freeze

  WAYS.each do |name, (options, fields, sent)|
    define_method("test_#{name}_reads_like_a_string_io") do
      serve(**options) { |env| [200, {}, [READS[Integer(env["PATH_INFO"].delete("/"))].call(env["rack.input"]).inspect]] }
      READS.each_with_index do |read, index|
        socket = connect
        socket.write("POST /#{index} HTTP/1.1\r\n#{HOST}#{fields}\r\n", sent[0, 4])
        socket.write(sent[4..]) if sent.bytesize > 4
        response = read_response(socket)
        response = read_response(socket) if response.status == 100
        assert_equal read.call(StringIO.new(sent.empty? ? "".b : BODY.dup)).inspect, response.body, read.source_location.inspect
      end
    end
  end

  # Libraries ask whatever has a path for it: Nokogiri::XML(request.body), aws-sigv4, RestClient.
  def test_a_large_body_has_a_path_while_it_is_open
    serve(body_memory_bytes: 4, bodies_memory_bytes: 0) do |env|
      input = env["rack.input"]
      before = [input.read(5), File.binread(input.path) == BODY, File.identical?(input.path, input)]
      [200, {}, [[*before, input.read == BODY[5..], input.path == input.to_path, input.size].inspect]]
    end
    ["", "Expect: 100-continue\r\n"].each do |expect|
      response = get_with(expect)
      assert_equal [BODY[0, 5], true, true, true, true, BODY.bytesize].inspect, response.body
    end
  end

  def get_with(fields)
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}#{LENGTH}#{fields}\r\n#{BODY}")
    response = read_response(socket)
    response.status == 100 ? read_response(socket) : response
  end

  # What nobody has read of it.
  def test_a_body_of_any_size_may_be_the_response
    [{}, {body_memory_bytes: 4, bodies_memory_bytes: 0}].each do |options|
      ["", "Expect: 100-continue\r\n"].each do |expect|
        serve(**options) { |env| [200, {}, env["rack.input"]] }
        assert_equal BODY, get_with(expect).body
        serve(**options) { |env| env["rack.input"].gets && [200, {}, env["rack.input"]] }
        assert_equal BODY.lines.drop(1).join, get_with(expect).body
      end
    end
  end

  # With Expect too, whatever else a StringIO and a File can do.
  def test_a_body_that_is_held_back_can_all_that_the_others_can
    serve { |env| [200, {}, [env["rack.input"].then { |input| [input.respond_to?(:rewind), input.respond_to?(:string), input.pos, input.readline, input.pos, input.each("d", chomp: true).to_a].inspect }]] }
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}#{LENGTH}Expect: 100-continue\r\n\r\n")
    assert_equal 100, read_response(socket).status
    socket.write(BODY)
    assert_equal [true, false, 0, BODY.lines.first, 7, %W[worl \nlast]].inspect, read_response(socket).body
  end

  # As one of no bytes in a StringIO.
  def test_no_body_can_what_the_others_can
    calls = %i[readlines getc getbyte pos closed? binmode set_encoding readpartial each_line seek]
    serve do |env|
      input = env["rack.input"]
      results = calls.map do |name|
        arguments = {set_encoding: ["BINARY"], readpartial: [5], seek: [0]}.fetch(name, [])
        result = name == :each_line ? input.each_line.to_a : input.public_send(name, *arguments)
        result.equal?(input) || result
      rescue EOFError => error
        error.class
      end
      [200, {}, [[*results, input.respond_to?(:readpartial), input.respond_to?(:string)].inspect]]
    end
    assert_equal [[], nil, nil, 0, false, true, true, EOFError, [], 0, true, false].inspect,
                 get[/\[\[\].*\z/]
  end

  # Runs the server with a body of 6 MB for a client in the same loop; prints what it gets.
  UPLOAD = <<~'RUBY'
    require "neverblock"
    require "neverblock/server"
    Process.setrlimit(:FSIZE, Integer(ARGV[0])) if ARGV[0] # as a full disk: writing fails
    trap("XFSZ", "IGNORE")
    app = ->(env) { env["HTTP_EXPECT"] && env["rack.input"].read(1); [200, {}, [env["rack.input"].then { |input| input.is_a?(File) ? File.readlink("/proc/self/fd/#{input.fileno}") : "no file" }]] }
    NB.run do
      server = NB::Server.new(app, bind: "tcp://127.0.0.1:0")
      Fiber.schedule { server.run }
      sleep 0.01 until server.ready?
      ask = lambda do |size, fields = ""|
        socket = TCPSocket.new("127.0.0.1", server.port)
        Fiber.schedule { socket.write("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n#{fields}Content-Length: #{size}\r\n\r\n", "x" * size) rescue nil }
        puts socket.read.then { |answer| [answer[9, 3], answer.lines.last].join(" ") }
      end
      ask.call(6_000_000)
      ask.call(6_000_000, "Expect: 100-continue\r\n") if ARGV[0]
      ask.call(10)
      server.stop
    end
  RUBY

  def upload(*arguments, folder)
    out, status = Open3.capture2e({"TMPDIR" => folder}, RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", UPLOAD, *arguments)
    assert status.success?, out
    out.lines.map(&:chomp)
  end

  def test_a_large_body_goes_where_temporary_files_go
    Dir.mktmpdir do |folder|
      assert_equal ["200 #{folder}", "200 no file"], upload(folder).map { |line| line.sub(%r{/(#\d+|neverblock-\w+) \(deleted\)}, "") }
      assert_match(%r{^200 /tmp/}, upload("#{folder}/nonexistent").first)
    end
  end

  # Chunks of all sizes, cut anywhere by the network, and what is pipelined behind them.
  def test_chunks_of_all_sizes_are_put_together
    random = Random.new(1)
    parts = Array.new(3000) { random.bytes([1, 1, 1, 2, 7, random.rand(1..5000)].sample(random: random)) }
    chunks = "#{parts.map { |part| "#{part.bytesize.to_s(16)};a=b\r\n#{part}\r\n" }.join}0\r\nt: 1\r\n\r\n"
    [{}, {bodies_memory_bytes: 0}, {body_streaming: true}].each do |options|
      serve(body_memory_bytes: 4, **options) { |env| [200, {}, [env["rack.input"].read]] }
      socket = connect
      request = "POST / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n#{chunks}"
      writer = Thread.new { 2.times { request.bytes.each_slice(9973) { |slice| socket.write(slice.pack("C*")) } } }
      2.times { assert_equal parts.join, read_response(socket).body, options }
      writer.join
    end
  end

  # A system call for each would be 10 µs of the loop's time for six bytes of a client's.
  def test_a_byte_in_each_chunk_is_not_written_alone
    serve(body_memory_bytes: 4, bodies_memory_bytes: 0) { |env| [200, {}, [env["rack.input"].size.to_s]] }
    calls = -> { File.read("/proc/self/io")[/syscw: (\d+)/, 1].to_i }
    before = calls.call
    answer = exchange("POST / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n#{"1\r\na\r\n" * 20_000}0\r\n\r\n")
    assert_equal "20000", answer.lines.last
    assert_operator calls.call - before, :<, 1000
  end

  def test_a_full_disk_refuses_the_body_and_nothing_else
    Dir.mktmpdir do |folder|
      lines = upload("5000000", folder)
      assert_equal ["507 the request body cannot be stored", "200 no file"], [lines.grep(/\A507/).first, lines.last]
      assert_equal 1, lines.grep(/Z Errno::EFBIG: File too large - a request body was refused, make room in #{folder} or change TMPDIR/).size, lines
      assert_equal 1, lines.grep(/POST .* NB::Server::BodyStorageError: the request body cannot be stored: File too large/).size, lines
    end
  end

  # The folder is the one that was used: /tmp, if TMPDIR names none.
  def test_what_helps_a_body_that_was_not_stored
    core, told, before = NB::Server::Core.new, [], ENV["TMPDIR"]
    core.reporter = ->(error, _env) { told << error.message }
    {"/proc" => Errno::ENOSPC, "/proc/none" => Errno::ENOSPC, "" => Errno::EACCES, nil => Errno::EMFILE}.each do |folder, error|
      ENV["TMPDIR"] = folder
      core.report_not_stored(error::Errno)
    end
    words = ["make room in /proc or change TMPDIR", *["make room in /tmp or change TMPDIR"] * 2, "raise the limit of open files (ulimit -n)"]
    assert_equal words, told.map { |text| text[/ - a request body was refused, (.*)/, 1] }
  ensure
    ENV["TMPDIR"] = before
  end
end
# rubocop:enable Layout/LineLength

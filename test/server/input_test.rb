# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"

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

  # With Expect too, whatever else a StringIO and a File can do.
  def test_a_body_that_is_held_back_can_all_that_the_others_can
    serve { |env| [200, {}, [env["rack.input"].then { |input| [input.respond_to?(:rewind), input.respond_to?(:string), input.pos, input.readline, input.pos].inspect }]] }
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}#{LENGTH}Expect: 100-continue\r\n\r\n")
    assert_equal 100, read_response(socket).status
    socket.write(BODY)
    assert_equal [true, false, 0, BODY.lines.first, 7].inspect, read_response(socket).body
  end
end
# rubocop:enable Layout/LineLength

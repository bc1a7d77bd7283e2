# frozen_string_literal: true

require_relative "helper"

# What the stream of a body that responds to `call` can do beyond write and close.
class ServerStreamTest < Minitest::Test
  include ServerTest

  UPCASE = lambda do |stream|
    loop { stream.write(stream.readpartial(100).upcase) }
  rescue EOFError
    stream.close
  end

  POST = "POST / HTTP/1.1\r\n#{HOST}Connection: close\r\n".freeze

  def test_readpartial_gives_what_has_arrived
    serve(body_streaming: true) { [200, TEXT, UPCASE] }
    socket = connect
    socket.write("#{POST}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    Timeout.timeout(60) do
      assert_match(/\AHTTP.1.1 200 /, socket.gets("\r\n\r\n"))
      assert_equal "3\r\nABC\r\n", socket.read(8)
      socket.write("2\r\nde\r\n0\r\n\r\n")
      assert_equal "2\r\nDE\r\n0\r\n\r\n", socket.read
    end
  end

  def test_readpartial_of_a_body_that_is_here
    serve { [200, TEXT, UPCASE] }
    assert_match(/ABC\r\n0\r\n\r\n\z/, exchange("#{POST}Content-Length: 3\r\n\r\nabc"))
    assert_match(/\r\n\r\n0\r\n\r\n\z/, get)
    long = exchange("#{POST}Content-Length: 300000\r\n\r\n#{"x" * 300_000}")
    assert_equal 300_000, long.count("X")
  end

  def test_readpartial_fills_a_buffer
    body = lambda do |stream|
      buffer = +"old"
      stream.write(stream.readpartial(2, buffer).equal?(buffer), buffer, stream.readpartial(2))
      stream.close
    end
    serve { [200, TEXT, body] }
    response = exchange("#{POST}Content-Length: 3\r\n\r\nabc")
    assert_equal %w[true ab c], response.scan(/^(true|ab|c)\r$/).flatten
  end

  LINES = lambda do |io|
    io.puts("a", ["b\n", [:c]], nil)
    io.puts
    io.print("d", 1)
    io.puts("\u00e9", "\xff".b)
  end

  def test_puts_and_print_are_those_of_io
    expected = IO.pipe do |reader, writer|
      LINES.call(writer)
      writer.close
      reader.binmode.read
    end
    results = nil
    body = lambda do |stream|
      results = [LINES.call(stream), stream.print]
      stream.close
    end
    serve { [200, TEXT, body] }
    connect.then do |socket|
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      assert_equal expected, read_response(socket).body.b
    end
    assert_equal [nil, nil], results
  end

  def test_readpartial_after_close_read
    raised = nil
    body = lambda do |stream|
      stream.close_read
      raised = assert_raises(IOError) { stream.readpartial(1) }
      stream.close
    end
    serve { [200, TEXT, body] }
    get
    assert_equal "not opened for reading", raised.message
  end

  def test_close_read_ends_a_read_that_waits
    body = lambda do |stream|
      raised = Thread::Queue.new
      Fiber.schedule { raised << assert_raises(IOError) { stream.read(1) } }
      stream.close_read
      stream.write(raised.pop.message)
      stream.close
    end
    serve(body_streaming: true, body_memory_bytes: 10, body_timeout: 5) { [200, TEXT, body] }
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 100\r\n\r\n")
    assert_equal "stream closed in another thread", read_response(socket).body
  end
end

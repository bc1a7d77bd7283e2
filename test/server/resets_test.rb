# frozen_string_literal: true

require_relative "helper"
require "tempfile"

# nb_http_resets: connections that broke during a request or its response, whatever the body.
class ServerResetsTest < Minitest::Test
  include ServerTest

  GET = "GET / HTTP/1.1\r\n#{HOST}\r\n".freeze
  LARGE = ("x" * 16_000_000).freeze

  def resets = eventually { @server.stats[:connections].zero? } && @server.stats[:resets]

  # Balancers check a server by a connection that they reset, and end idle ones so.
  def test_a_client_that_resets_an_idle_connection_breaks_nothing
    serve(&HELLO)
    Reset.close(connect)
    socket = connect
    2.times do
      socket.write(GET)
      read_response(socket)
    end
    Reset.close(socket)
    assert_equal [0, 2], [resets, @server.stats[:requests]]
  end

  def test_a_request_that_breaks_counts
    serve(&HELLO)
    upload = "POST / HTTP/1.1\r\n#{HOST}Content-Length: 9\r\n\r\n123"
    ["GET / HT", upload].each.with_index(1) do |part, count|
      before = @server.stats[:request_bytes]
      socket = connect
      socket.write(part)
      eventually { @server.stats[:request_bytes] == before + part.bytesize }
      Reset.close(socket)
      assert_equal count, resets
    end
  end

  # The read of the body and the answer both fail.
  def test_a_body_that_breaks_while_it_is_read_counts_once
    reads = Thread::Queue.new
    serve(body_streaming: true, body_memory_bytes: 10) do |env|
      reads << true
      env["rack.input"].read
    rescue NB::Server::BodyError
      [200, {}, ["x"]]
    end
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Content-Length: 99999\r\n\r\n", "x" * 1000)
    reads.pop
    Reset.close(socket)
    assert_equal 1, resets
  end

  def test_a_response_that_breaks_counts_once_whatever_its_body
    file = Tempfile.new("resets").tap { |one| one.truncate(16_000_000) }
    parts = Enumerator.new { |all| 1000.times { all << LARGE[0, 16_000] } }
    stream = ->(out) { out.write(LARGE).then { out.close } }
    bodies = {"/array" => -> { [LARGE] }, "/each" => -> { parts }, "/stream" => -> { stream },
              "/file" => -> { File.open(file.path) }}
    serve { |env| [200, {}, bodies.fetch(env["PATH_INFO"]).call] }
    bodies.each_key.with_index(1) do |path, count|
      socket = connect
      socket.write(GET.sub("/", path))
      socket.readpartial(1000)
      Reset.close(socket)
      assert_equal count, resets, path
    end
  ensure
    file&.close!
  end
end

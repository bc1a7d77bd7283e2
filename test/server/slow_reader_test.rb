# frozen_string_literal: true

require_relative "helper"
require "tempfile"

# Clients that take an answer more slowly than it is made.
class ServerSlowReaderTest < Minitest::Test
  include ServerTest

  PART = ("x" * 20_000).freeze
  BODIES = {
    "array" => ->(_path) { [PART * 110] },
    "each" => ->(_path) { Enumerator.new { |out| 110.times { out << PART } } },
    "file" => ->(path) { File.open(path) }
  }.freeze

  # A client with room for little.
  def ask(path)
    socket = Socket.new(:INET, :STREAM)
    (@sockets ||= []) << socket
    socket.setsockopt(:SOCKET, :RCVBUF, 65_536)
    socket.connect(Addrinfo.tcp("127.0.0.1", @server.port))
    socket.write("GET /#{path} HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n")
    socket
  end

  # 333 KB a second: half of the unsent megabyte, and so the next time that the socket is writable,
  # takes as long as write_timeout; the whole takes four times as long.
  def test_who_reads_slowly_gets_everything
    Tempfile.create("slow") do |file|
      file.write(PART * 110)
      file.flush
      serve(write_timeout: 1.5) do |env|
        [200, {}, BODIES.fetch(env["PATH_INFO"][1..]).call(file.path)]
      end
      read = BODIES.keys.to_h { |path| [ask(path), 0] }
      read_a_bit_of_each(read) && sleep(0.06) until read.empty?
      assert_equal 0, @server.stats[:timeouts]
    end
  end

  def read_a_bit_of_each(read)
    read.each_key do |socket|
      bytes = socket.recv(20_000).to_s
      read[socket] += bytes.bytesize
      assert_operator read.delete(socket), :>, 2_200_000 if bytes.empty?
    end
  end

  def test_who_reads_nothing_is_cut_off
    serve(write_timeout: 0.2) { |env| [200, {}, BODIES.fetch(env["PATH_INFO"][1..]).call("")] }
    %w[array each].each { |path| ask(path) }
    eventually { @server.stats[:timeouts] == 2 && @server.stats[:connections].zero? }
  end

  # Of a large answer the kernel takes its share, not 4 MB.
  def test_what_is_unsent_is_bounded
    serve { |_env| [200, {}, ["x" * 16_000_000]] }
    ask("")
    before = nil
    eventually { before == (before = settled) && before.positive? }
    assert_operator before, :<, 2_000_000
  end

  def settled
    sleep(0.2)
    @server.stats[:response_bytes]
  end
end

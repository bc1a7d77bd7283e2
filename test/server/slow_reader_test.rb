# frozen_string_literal: true

require_relative "helper"
require "delegate"
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

  # A body that ends its work only when the client has everything.
  class Patient < SimpleDelegator
    attr_accessor :gate

    def close
      gate.pop
      super
    end
  end

  # The kernel tells of room in the socket while the application is busy with other things.
  def test_the_rest_of_an_answer_leaves_while_the_application_runs
    Tempfile.create("patient") do |file|
      file.write(PART * 110)
      file.flush
      gate = Thread::Queue.new
      serve do |env|
        path = env["PATH_INFO"]
        body = Patient.new(path == "/file" ? File.open(file.path) : StringIO.new(PART * 110))
        body.gate = gate
        [200, {"content-length" => "2200000"}, body]
      end
      %w[file io].each do |path|
        socket = ask(path)
        until_full
        assert_includes socket.gets("\r\n\r\n"), "200 OK"
        assert_equal 2_200_000, Timeout.timeout(60) { socket.read(2_200_000).to_s.bytesize }, path
        gate << true
        assert_empty socket.read
      end
    end
  end

  def test_who_reads_nothing_is_cut_off
    serve(write_timeout: 0.2) { |env| [200, {}, BODIES.fetch(env["PATH_INFO"][1..]).call("")] }
    %w[array each].each { |path| ask(path) }
    eventually { @server.stats[:timeouts] == 2 && @server.stats[:connections].zero? }
  end

  # What is large waits as it is, and what is small behind it would pile up.
  WRITERS = {
    "two fibers" => ->(stream) { Fiber.schedule { quietly { stream.write("x" * 10_000_000) } } },
    "one that went on after a timeout" => lambda do |stream|
      Timeout.timeout(0.1) { stream.write("x" * 10_000_000) }
    rescue Timeout::Error
      nil
    end
  }.freeze

  def self.quietly
    yield
  rescue Errno::EPIPE
    nil
  end

  WRITERS.each do |name, begin_with|
    define_method("test_what_follows_a_large_part_waits_with_it_#{name.tr(" ", "_")}") do
      count = 0
      serve(write_timeout: 0.3) do |_env|
        [200, {}, lambda do |stream|
          begin_with.call(stream)
          20_000.times { stream.write("y" * 1000) && count += 1 }
          stream.close
        end]
      end
      ask("")
      eventually { @server.stats[:requests] == 1 }
      assert_operator count, :<, 1000
    end
  end

  # Of a large answer the kernel takes its share, not 4 MB.
  def test_what_is_unsent_is_bounded
    serve { |_env| [200, {}, ["x" * 16_000_000]] }
    ask("")
    assert_operator until_full, :<, 2_000_000
  end

  # @return [Integer] bytes that the kernel has taken
  def until_full
    before = nil
    eventually { before == (before = settled) && before.positive? }
    before
  end

  def settled
    sleep(0.2)
    @server.stats[:response_bytes]
  end
end

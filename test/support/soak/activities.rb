# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "net/http"
require "openssl"
require "tempfile"
require "timeout"

module Soak
  # What workers do: plain blocking Ruby, each checks what it got.
  class Activities
    NAMES = %i[echo http tls download timeouts queue lock select child popen file name thread closing
               nested].freeze

    def initialize(worker)
      @worker = worker
      @round = worker.round
      @random = worker.random
    end

    def echo
      socket = connect
      Timeout.timeout(0.2) do
        3.times do
          sent = bytes(20_000)
          writing = Fiber.schedule { writes(socket, sent) }
          expect(sent, socket.read(sent.bytesize))
          raise EOFError if writing.alive?
        end
      end
    end

    def http
      http = Net::HTTP.new("localhost", @round.proxy.port)
      http.read_timeout = http.open_timeout = 0.2
      http.max_retries = 0
      size = @random.rand(1..50_000)
      http.start do
        @worker.hold(http.instance_variable_get(:@socket).io)
        answer = http.get("/#{size}")
        expect(size, answer.body.bytesize) if answer.is_a?(Net::HTTPOK)
      end
    rescue Net::HTTPBadResponse, Net::ProtocolError, Zlib::Error
      nil # the proxy cut it in two
    end

    def tls
      socket = Certificates.client(@worker.hold(TCPSocket.new("127.0.0.1", @round.tls_port)))
      Timeout.timeout(0.5) do
        socket.connect
        sent = bytes(5_000)
        socket.write(sent)
        expect(sent, socket.read(sent.bytesize))
      end
    end

    def download
      socket = connect(@round.http_port)
      socket.write("GET /300000 HTTP/1.0\r\n\r\n")
      Timeout.timeout(0.3) do
        got = 0
        while (part = socket.read(10_000))
          got += part.bytesize
          sleep @random.rand(0.003)
        end
        expect(true, got > 300_000)
      end
    end

    def timeouts
      seconds = Array.new(3) { @random.rand(0.001..0.02) }
      Timeout.timeout(seconds[0]) { Timeout.timeout(seconds[1]) { sleep(seconds[2]) } }
    end

    def queue
      queue = Thread::SizedQueue.new(2)
      producer = Fiber.schedule { produce(queue) }
      got = []
      Timeout.timeout(0.1) { 10.times { got << queue.pop } }
      expect((0...10).to_a, got)
    ensure
      queue&.close
      sleep 0 while producer&.alive?
    end

    def lock
      Timeout.timeout(@random.rand(0.001..0.02)) do
        @round.lock.synchronize do
          @round.condition.wait(@round.lock, 0.002) if @random.rand(2).zero?
          expect(true, @round.lock.owned?)
          @round.condition.signal
          sleep 0.0005
        end
      end
    end

    def select
      pairs = Array.new(3) { UNIXSocket.pair.each { |io| @worker.hold(io) } }
      chosen = pairs.sample(random: @random)
      Fiber.schedule { sleep(0.002) && writes(chosen[1], "x") }
      ready, = IO.select(pairs.map(&:first), nil, nil, 0.05)
      expect([chosen[0]], ready) if ready
    end

    def child
      pid = @worker.pid(Process.spawn("sleep 0.0#{@random.rand(1..3)}; exit 7"))
      Timeout.timeout(@random.rand(0.01..0.2)) { expect(7, Process.wait2(pid).last.exitstatus) }
    end

    def popen
      io = @worker.hold(IO.popen("cat", "r+"))
      io.puts("line")
      expect("line\n", io.gets)
    end

    def file
      text = bytes(100_000)
      Tempfile.create("nb") do |file|
        @worker.hold(file)
        file.binmode
        file.write(text)
        file.rewind
        expect(text, file.read)
        IO.copy_stream(file.path, File::NULL)
      end
    end

    def name
      expect(true, Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).any?)
      found = begin
        Timeout.timeout(0.1) { Addrinfo.getaddrinfo("unknown.invalid", 80) }
      rescue SocketError, Timeout::Error
        :none
      end
      expect(:none, found)
    end

    def thread
      expect(42, @worker.thread { sleep(0.002) && 42 }.value)
      expect(43, NB.offload { sleep(0.001) && 43 })
    end

    def closing
      one, two = UNIXSocket.pair.each { |io| @worker.hold(io) }
      reading = Fiber.schedule { one.read(1) rescue IOError }
      two.write("x") if @random.rand(2).zero?
      one.close
      sleep 0
      raise "the reader still waits" if reading.alive? && !@round.patient { !reading.alive? }
    end

    def nested
      inner = Fiber.new { 3.times { |i| sleep(0.001) && Fiber.yield(i) } }
      expect([0, 1, 2], Array.new(3) { inner.resume })
    end

    private

    def connect(port = @round.proxy.port) = @worker.hold(TCPSocket.new("127.0.0.1", port))
    def bytes(most) = @random.bytes(@random.rand(1..most))

    def writes(io, text)
      io.write(text)
    rescue SystemCallError, IOError
      nil # closed by the one who reads, or by the proxy
    end

    def produce(queue)
      10.times { |i| queue.push(i) }
    rescue ClosedQueueError
      nil
    end

    # A connection cut short gives less; what came must be right.
    def expect(wanted, got)
      raise EOFError, "cut short" if got.nil?
      return if wanted == got

      raise EOFError, "cut short" if wanted.is_a?(String) && wanted.start_with?(got)

      raise "expected #{wanted.inspect[0, 60]}, got #{got.inspect[0, 60]}"
    end
  end
end
# rubocop:enable Layout/LineLength

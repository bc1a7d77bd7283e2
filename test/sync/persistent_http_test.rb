# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "neverblock"
require "neverblock/cli/delay_server"
require_relative "../support/certificates"
require_relative "../support/patience"
require_relative "../support/ports"
require_relative "../support/reset"
require_relative "../support/ticker"
require_relative "../support/timing"

# NB::HTTP.persistent against real servers: one that answers after a while, and some that misbehave.
class PersistentHttpTest < Minitest::Test
  include Patience

  # Answers each connection as its lambda says, in threads, and counts.
  class Server
    attr_reader :port, :connections, :ended, :requests

    def initialize(socket = TCPServer.new("127.0.0.1", 0), &serve)
      @port = socket.to_io.local_address.ip_port
      @socket = socket
      @connections = @ended = 0
      @requests = []
      @serving = []
      @thread = Thread.new { loop { accept(&serve) } }
    end

    def url = "http://127.0.0.1:#{@port}"

    def stop
      [@thread, *@serving].each { |thread| thread.kill.join }
      @socket.close
    end

    # @return [String, nil] method and path
    def read_request(io)
      head = io.gets("\r\n\r\n") or return
      io.read(Integer(head[/content-length: (\d+)/i, 1] || 0))
      @requests << head[/\A\S+ \S+/]
      @requests.last
    end

    def answer(io, body = "done", head: nil)
      io.write("HTTP/1.1 200 OK\r\n", *head, "Content-Length: #{body.bytesize}\r\n\r\n")
      io.write(body) unless @requests.last.start_with?("HEAD")
    end

    private

    def accept
      io = @socket.accept
      number = (@connections += 1)
      @serving << Thread.new do
        yield io, number
      rescue IOError, SystemCallError
        nil
      ensure
        io.close
        @ended += 1
      end
      @serving.last.report_on_exception = false
    rescue OpenSSL::SSL::SSLError
      nil
    end
  end

  def teardown = @server&.stop

  def test_it_is_four_times_as_fast_as_a_connection_each
    server = NB::DelayServer.new
    serving = Thread.new { server.run }
    uri = URI("http://127.0.0.1:#{server.port}/")
    client = NB::HTTP.persistent(uri)
    rates = Array.new(3) do
      [-> { Net::HTTP.get(uri) }, -> { client.get("/") }].map do |get|
        NB.run { 50.times { get.call } } # warm
        300 / cpu_seconds { NB.run { 300.times { get.call } } }
      end
    end
    ratios = rates.map { |none, kept| kept / none }.sort
    puts "keep-alive: #{ratios.map { |ratio| ratio.round(1) }} times as many" if ENV["NB_VERBOSE"]
    assert_operator ratios[1], :>, 1.5
    assert_equal 1, client.stats[:idle]
  ensure
    client&.close
    server&.stop
    serving&.join
  end

  def test_fifty_fibers_share_ten_connections
    server = NB::DelayServer.new(delay: 0.1)
    serving = Thread.new { server.run }
    client = NB::HTTP.persistent("127.0.0.1:#{server.port}", size: 10)
    NB.run do
      ticker = Ticker.new
      beating = NB.async { ticker.run }
      start = clock
      bodies = NB.map(1..50, concurrency: 50) { client.get("/").body }
      assert_equal [50, ["done"]], [bodies.size, bodies.uniq]
      assert_operator clock - start, :>=, 0.5
      assert_in_time clock - start, 2.5
      ticker.stop
      beating.wait
      assert_in_time ticker.stillest.still, 0.05
    end
    assert_equal [10, 0, 40], client.stats.values_at(:idle, :in_use, :waits)
    bodies = Array.new(4) { Thread.new { client.get("/").body } }.map(&:value)
    assert_equal ["done"], bodies.uniq
  ensure
    client&.close
    server&.stop
    serving&.join
  end

  def test_every_method_sends_what_it_says
    serve { |io, _| @server.answer(io) while @server.read_request(io) }
    client = NB::HTTP.persistent(@server.url)
    client.get("/a?b=c", "X-One" => "1")
    client.head("/b").then { |response| assert_nil response.body }
    client.delete("/c")
    %i[post put patch].each do |name|
      assert_equal "done", client.public_send(name, "/d", "body").body
    end
    client.request(Net::HTTP::Options.new("/e")) do |response|
      response.read_body { |part| @part = part }
    end
    assert_equal ["GET /a?b=c", "HEAD /b", "DELETE /c", "POST /d", "PUT /d", "PATCH /d",
                  "OPTIONS /e"], @server.requests
    assert_equal "done", @part
    assert_match(/in_use=0/, client.inspect)
  end

  def test_a_connection_that_the_server_closed_is_opened_anew
    serve { |io, _| @server.answer(io) if @server.read_request(io) } # and closes
    assert_each_request_connects_anew
  end

  # As load balancers do when nobody has used it for a while.
  def test_a_connection_that_the_server_reset_is_opened_anew
    serve do |io, _|
      @server.answer(io) if @server.read_request(io)
      Reset.on_close(io)
    end
    assert_each_request_connects_anew
  end

  # A server that loses its patience says so before it closes; others send more than they said.
  def test_what_nobody_asked_for_is_nobodys_answer
    { "on an idle connection" => 0.05, "behind an answer" => 0 }.each do |where, pause|
      sent = Thread::Queue.new
      serve do |io, number|
        while @server.read_request(io)
          @server.answer(io, "#{number}", head: ("X-More: 1\r\n" if number == 1))
          sleep(pause)
          @server.answer(io, "nobody's")
          sent << true
        end
      end
      client = NB::HTTP.persistent(@server.url)
      NB.run do
        assert_equal "1", client.get("/").body
        sent.pop
        assert_equal "2", client.post("/", "body").body, where
      end
      teardown
    end
  end

  # Ruby's own Net::HTTP asks again, and the block gets the first half twice.
  def test_a_block_gets_each_piece_once
    serve do |io, _|
      @server.read_request(io)
      io.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
    end
    client = NB::HTTP.persistent(@server.url)
    got = +""
    assert_raises(IOError) do
      client.get("/") { |response| response.read_body { |part| (got << part) && raise(IOError) } }
    end
    assert_equal ["half", 1], [got, @server.requests.size]
    return unless Net::HTTP.method_defined?(:ignore_eof)

    assert_raises(EOFError) do
      client.get("/") { |response| response.read_body { |part| got << part } }
    end
    assert_equal ["halfhalf", 2], [got, @server.requests.size]
  end

  # Ruby's own Net::HTTP gives it as if it were all.
  def test_half_an_answer_is_none
    skip "net-http #{Net::HTTP::VERSION} hides it" unless Net::HTTP.method_defined?(:ignore_eof)
    half = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"
    serve do |io, number|
      @server.read_request(io)
      io.write(half, *("half" if number > 1))
    end
    client = NB::HTTP.persistent(@server.url)
    assert_equal "halfhalf", client.get("/").body
    assert_equal 2, @server.connections
    @server.stop
    serve { |io, _| @server.read_request(io) && io.write(half) }
    assert_raises(EOFError) { NB::HTTP.persistent(@server.url).post("/", "body") }
  end

  def test_a_server_that_comes_back
    port = Ports.free
    client = NB::HTTP.persistent("127.0.0.1:#{port}")
    2.times do |round|
      serve(TCPServer.new("127.0.0.1", port)) { |io, _| answer_all(io) }
      assert_equal(["done"] * 3, Array.new(3) { client.post("/", "body").body }, "round #{round}")
      @server.stop
      %i[get delete].each { |name| assert_raises(Errno::ECONNREFUSED) { client.send(name, "/") } }
      assert_raises(Errno::ECONNREFUSED) { client.post("/", "body") }
      assert_equal [0, 0], client.stats.values_at(:in_use, :idle)
    end
    serve { nil } # for teardown
  end

  def test_connection_close_is_respected
    serve do |io, _|
      @server.answer(io, head: "Connection: close\r\n") while @server.read_request(io)
    end
    client = NB::HTTP.persistent(@server.url)
    2.times { assert_equal "done", client.get("/").body }
    assert_equal 2, @server.connections
  end

  def test_an_idle_connection_is_not_used_for_ever
    serve { |io, _| @server.answer(io) while @server.read_request(io) }
    client = NB::HTTP.persistent(@server.url, idle_timeout: 0.5)
    2.times { client.get("/") }
    sleep 0.6
    client.get("/")
    assert_equal 2, @server.connections
  end

  def test_what_breaks_is_repeated_if_that_is_safe
    serve do |io, number|
      @server.answer(io) while @server.read_request(io) && number.even?
    end
    client = NB::HTTP.persistent(@server.url)
    assert_equal "done", client.get("/").body
    client = NB::HTTP.persistent(@server.url)
    assert_raises(EOFError) { client.post("/", "body") }
    assert_equal ["GET /", "GET /", "POST /"], @server.requests
    assert_equal "done", client.post("/", "body").body # the next one has a new connection
  end

  def test_an_answer_that_was_not_read_never_comes_to_the_next
    serve do |io, _|
      while (request = @server.read_request(io))
        sleep 2 if request.end_with?("slow")
        @server.answer(io, request)
      end
    end
    client = NB::HTTP.persistent(@server.url, size: 1)
    NB.run do
      assert_raises(Timeout::Error) { NB.timeout(0.05) { client.get("/slow") } }
      assert_equal "GET /1", client.get("/1").body
      task = NB.async { client.get("/slow") }
      sleep 0.05
      task.cancel
      assert_equal "GET /2", client.get("/2").body
      [1].each { client.request(Net::HTTP::Get.new("/left")) { break } }
      assert_equal "GET /3", client.get("/3").body
      assert_raises(KeyError) { client.request(Net::HTTP::Get.new("/raised")) { raise KeyError } }
      assert_equal "GET /4", client.get("/4").body
    end
    assert_equal 5, @server.connections
  end

  def test_errors_come_as_they_are
    client = NB::HTTP.persistent("http://127.0.0.1:#{Ports.free}", pool_timeout: 0.05, size: 1)
    assert_raises(Errno::ECONNREFUSED) { client.get("/") }
    serve { |io, _| @server.read_request(io) && sleep }
    client = NB::HTTP.persistent(@server.url, pool_timeout: 0.05, size: 1) do |http|
      http.read_timeout = 0.2
    end
    NB.run do
      first = NB.async { client.post("/", "") }
      assert_raises(NB::PoolTimeoutError) { client.get("/") }
      assert_raises(Net::ReadTimeout) { first.wait }
    end
    client.close
    assert_raises(NB::ClosedError) { client.get("/") }
    ["ftp://host/", "http://", "http:///path"].each do |url|
      assert_raises(ArgumentError, URI::InvalidURIError) { NB::HTTP.persistent(url) }
    end
  end

  def test_tls
    context = OpenSSL::SSL::SSLContext.new
    context.cert = Certificates.certificate
    context.key = Certificates::KEY
    listener = OpenSSL::SSL::SSLServer.new(TCPServer.new("127.0.0.1", 0), context)
    serve(listener) { |io, _| @server.answer(io) while @server.read_request(io) }
    client = NB::HTTP.persistent("https://127.0.0.1:#{@server.port}") do |http|
      http.verify_mode = OpenSSL::SSL::VERIFY_NONE
    end
    NB.run { 3.times { assert_equal "done", client.get("/").body } }
    assert_equal 1, @server.connections
  end

  private

  def assert_each_request_connects_anew
    client = NB::HTTP.persistent(@server.url)
    4.times do |count|
      assert_equal "done", client.post("/", "body").body
      eventually { @server.ended > count }
    end
    assert_equal [4, 4], [@server.connections, @server.requests.size]
  end

  def answer_all(io)
    @server.answer(io) while @server.read_request(io)
  end

  def serve(*listener, &block) = @server = Server.new(*listener, &block)

  # Of the whole process, and so of both ends.
  def cpu_seconds
    start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    yield
    Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start
  end
end

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "neverblock/server"
require "socket"
require "stringio"
require "timeout"
require_relative "../support/patience"
require_relative "../support/reset"

# A server in a thread with a loop of its own, and raw sockets to talk to it.
module ServerTest
  include Patience

  HOST = "Host: a\r\n"

  def teardown
    @sockets&.each { |socket| socket.close unless socket.closed? }
    @servers&.each do |server, thread|
      server.stop.stop
      thread.join(60) || flunk("the server did not stop: #{thread.backtrace&.first(5)}")
    end
  end

  def serve(app = nil, **options, &block)
    log = options.delete(:log) || (@log = StringIO.new)
    backend = options.delete(:backend)
    server = NB::Server.new(app || block, **{bind: "tcp://127.0.0.1:0", log: log}, **options)
    started = Thread::Queue.new
    run = -> { server.run { started << true } }
    thread = Thread.new do
      backend ? NB.run(backend: backend, &run) : run.call
    rescue Exception => error # rubocop:disable Lint/RescueException -- told to the test
      started << error
    end
    result = started.pop
    raise result unless result == true

    (@servers ||= []) << [server, thread]
    @server = server
  end

  def connect(server = @server)
    socket = TCPSocket.new("127.0.0.1", server.port)
    socket.setsockopt(:TCP, :NODELAY, true)
    (@sockets ||= []) << socket
    socket
  end

  # Writes, reads to the end of the connection.
  def exchange(bytes, shut: true)
    socket = connect
    socket.write(bytes)
    socket.close_write if shut
    Timeout.timeout(60) { socket.read }
  rescue Errno::ECONNRESET, Errno::EPIPE
    flunk "reset instead of an answer to #{bytes[0, 80].inspect}"
  end

  def get(path = "/", fields = "")
    exchange("GET #{path} HTTP/1.1\r\n#{HOST}#{fields}Connection: close\r\n\r\n")
  end

  Response = Struct.new(:status, :headers, :body)

  # Reads one response off a connection that stays open.
  def read_response(socket, head: false)
    Timeout.timeout(60) do
      status = Integer(socket.gets("\r\n")[/\AHTTP\/1\.1 (\d+) /, 1])
      headers = {}
      while (line = socket.gets("\r\n").chomp("\r\n")) != ""
        name, value = line.split(": ", 2)
        headers[name.downcase] = [headers[name.downcase], value].compact.join("\n")
      end
      Response.new(status, headers, head ? "" : read_body(socket, headers))
    end
  end

  def read_body(socket, headers)
    return socket.read(Integer(headers["content-length"])) if headers["content-length"]
    return "" unless headers["transfer-encoding"] == "chunked"

    body = +""
    while (size = Integer(socket.gets("\r\n").chomp, 16)).positive?
      body << socket.read(size)
      assert_equal "\r\n", socket.read(2)
    end
    assert_equal "\r\n", socket.read(2)
    body
  end

  TEXT = {"content-type" => "text/plain"}.freeze
  HELLO = ->(_env) { [200, TEXT, ["hello"]] }
end
# rubocop:enable Layout/LineLength

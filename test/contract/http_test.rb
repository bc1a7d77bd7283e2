# frozen_string_literal: true

require "net/http"
require "open-uri"
require_relative "../support/contract"

# Net::HTTP, the library most programs wait in: plain, kept alive, over TLS, with its timeouts.
class HTTPTest < Contract
  contract "get by name and by number" do
    with_server do |port|
      assert_equal "/a", Net::HTTP.get(URI("http://localhost:#{port}/a"))
      assert_equal "/b", Net::HTTP.get(URI("http://127.0.0.1:#{port}/b"))
      assert_equal "/c", URI.parse("http://127.0.0.1:#{port}/c").open.read
    end
  end

  contract "a kept connection serves many requests" do
    with_server do |port|
      Net::HTTP.start("127.0.0.1", port) do |http|
        assert_equal (0...20).map { |i| "/#{i}" }, Array.new(20) { |i| http.get("/#{i}").body }
      end
    end
  end

  contract "twenty slow requests take the time of one", gap: 0.060 do
    with_server do |port|
      start = clock
      bodies = Array.new(20) { |i| strand { Net::HTTP.get(URI("http://127.0.0.1:#{port}/slow#{i}")) } }
      assert_equal (0...20).map { |i| "/slow#{i}" }, bodies.map(&:value)
      assert_in_time clock - start, 1.5
    end
  end

  contract "a post with a body" do
    with_server do |port|
      answer = Net::HTTP.post(URI("http://127.0.0.1:#{port}/echo"), "x" * 200_000)
      assert_equal 200_000, Integer(answer.body)
    end
  end

  contract "read_timeout" do
    with_server do |port|
      http = Net::HTTP.new("127.0.0.1", port)
      http.read_timeout = 0.03
      http.max_retries = 0
      assert_takes(0.03) { assert_raises(Net::ReadTimeout) { http.get("/slow") } }
      http.finish if http.started?
    end
  end

  contract "open_timeout" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    server.listen(0)
    keep(Socket.new(:INET, :STREAM)).connect(server.local_address)
    http = Net::HTTP.new("127.0.0.1", server.addr[1])
    http.open_timeout = 0.05
    http.max_retries = 0
    # The backlog may take one more before it is full.
    assert_takes(0.05) do
      assert_raises(Net::OpenTimeout, Net::ReadTimeout) do
        http.read_timeout = 0.05
        3.times {
 keep(Socket.new(:INET, :STREAM)).connect_nonblock(server.local_address, exception: false) }
        http.get("/")
      end
    end
  end

  contract "over TLS", gap: 0.060 do
    with_server(tls: true) do |port|
      http = Net::HTTP.new("localhost", port)
      http.use_ssl = true
      http.cert_store = Certificates.client_context.cert_store
      http.start { assert_equal ["/a", "/b"], [http.get("/a").body, http.get("/b").body] }
    end
  end

  # A small server made of the same plain Ruby. Paths with "slow" take 0.1 s.
  def with_server(tls: false)
    listener = keep(TCPServer.new("127.0.0.1", 0))
    listener = keep(OpenSSL::SSL::SSLServer.new(listener, Certificates.server_context)) if tls
    serving = strand { accept_all(listener) }
    yield listener.addr[1]
  ensure
    serving.interrupt(Interrupt.new)
    serving.failure
    listener.close
    @serving&.each { |one| one.join(1) }
  end

  def accept_all(listener)
    @serving = []
    loop do
      socket = listener.accept
      @serving << strand { serve(socket) }
    end
  end

  def serve(socket)
    while (line = socket.gets)
      length = 0
      while (header = socket.gets) && header != "\r\n"
        length = Integer(header.split.last) if header.downcase.start_with?("content-length:")
      end
      answer(socket, line.split[1], length)
    end
  rescue Errno::EPIPE, Errno::ECONNRESET, OpenSSL::SSL::SSLError
    nil # the client left early, as the timeout tests do
  ensure
    socket.close
  end

  def answer(socket, path, length)
    body = path == "/echo" ? socket.read(length).bytesize.to_s : path
    sleep 0.1 if path.include?("slow")
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}")
  end
end

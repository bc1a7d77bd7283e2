# frozen_string_literal: true

require "socket"
require "stringio"
require "zlib"
require_relative "../support/certificates"

module Tracing
  # Where the agents of the vendors send what they have: an HTTP server on threads of this process,
  # which keeps every request.
  class Collector
    # What came: the path without its query, and the body without its compression.
    Request = Struct.new(:method, :path, :headers, :body)

    # @return [Integer]
    attr_reader :port

    # @param tls [Boolean] with the certificate of Certificates
    # @yieldparam request [Request]
    # @yieldreturn [Array(Integer, String)] status and body of the answer
    # @param host [String]
    def initialize(tls: false, host: "127.0.0.1", &answer)
      @tls = tls
      @answer = answer || ->(_) { [200, "{}"] }
      @lock = Thread::Mutex.new
      @requests = []
      @server = TCPServer.new(host, 0)
      @port = @server.addr[1]
      @thread = Thread.new { loop { accept } }
    end

    # @return [Array<Request>] so far
    def requests = @lock.synchronize { @requests.dup }

    def clear = @lock.synchronize { @requests.clear }

    def close
      @thread.kill.join
      @server.close
    end

    private

    def accept
      socket = @server.accept
      Thread.new do
        Thread.current.report_on_exception = false
        socket = Certificates.server(socket).tap(&:accept) if @tls
        nil while serve(socket)
      ensure
        socket.close
      end
    end

    def serve(socket)
      line = socket.gets or return
      method, target = line.split
      headers = read_headers(socket)
      body = unpack(read_body(socket, headers), headers["content-encoding"])
      request = Request.new(method, target, headers, body)
      @lock.synchronize { @requests << request }
      status, text = @answer.call(request)
      socket.write("HTTP/1.1 #{status} OK\r\nContent-Type: application/json\r\n" \
                   "Content-Length: #{text.bytesize}\r\n\r\n#{text}")
      headers["connection"] != "close"
    end

    def read_headers(socket)
      headers = {}
      while (line = socket.gets) && line != "\r\n"
        name, value = line.chomp.split(":", 2)
        headers[name.downcase] = value.strip
      end
      headers
    end

    def read_body(socket, headers)
      return socket.read(headers["content-length"].to_i) unless headers["transfer-encoding"]

      body = +""
      while (size = socket.gets.to_i(16)).positive?
        body << socket.read(size)
        socket.gets
      end
      socket.gets
      body
    end

    def unpack(body, encoding)
      case encoding
      when "gzip" then Zlib::GzipReader.new(StringIO.new(body)).read
      when "deflate" then Zlib::Inflate.inflate(body)
      else body.to_s
      end
    end
  end
end

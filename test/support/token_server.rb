# frozen_string_literal: true

require "socket"

# An HTTP server that answers each path with that path, in two parts. The second part of the answer
# to …/held… never comes: who is interrupted there has read half an answer.
class TokenServer
  COPIES = 20

  # @return [Integer] how many connections it has accepted
  attr_reader :accepted

  # @return [String] the body for that path
  def self.body(path) = "#{path};" * COPIES

  # @yieldparam path [String]
  # @yieldreturn [String] another body for it
  def initialize(&body)
    @body = body || TokenServer.method(:body)
    @server = TCPServer.new("127.0.0.1", 0)
    @accepted = 0
    @open = {}
    @accepting = Thread.new { accept }
  end

  # @return [String]
  def origin = "http://127.0.0.1:#{@server.local_address.ip_port}"

  # @return [Integer] connections that the client has not closed
  def open = @open.size

  # Closes all connections, as a server does with those that are idle for too long.
  def hang_up
    @open.each_key(&:shutdown)
    sleep 0.001 until @open.empty?
  end

  def close
    @server.close
    @accepting.join
    @open.each do |io, thread|
      thread.kill.join
      io.close
    end
  end

  private

  def accept
    loop do
      io = @server.accept
      @accepted += 1
      @open[io] = nil
      @open[io] = Thread.new { serve(io) }
    end
  rescue IOError # closed
    nil
  end

  def serve(io)
    while (line = io.gets)
      path = line.split[1]
      nil until io.gets("\r\n") == "\r\n"
      answer(io, path, @body.call(path))
    end
  rescue SystemCallError, IOError
    nil # the client has gone
  ensure
    io.close
    @open.delete(io)
  end

  def answer(io, path, body)
    half = body.bytesize / 2
    io.write("HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\n\r\n", body[0, half])
    return io.read if path.include?("/held") # until the client closes

    Thread.pass
    io.write(body[half..])
  end
end

# frozen_string_literal: true

require "socket"
require_relative "../support/reset"

# An HTTP server in fibers that answers with the path, a bit late. It keeps some connections, and
# closes or resets the others after their answer.
class Echo
  attr_reader :url

  def initialize(random)
    @random = random
    @server = TCPServer.new("127.0.0.1", 0)
    @url = "http://127.0.0.1:#{@server.local_address.ip_port}"
    @tasks = []
    @accepting = NB.async { loop { accept } }
  end

  # Waits until all have ended.
  def close
    [@accepting, *@tasks].each { |task| task.cancel.wait }
    @server.close
  end

  private

  def accept
    socket = @server.accept
    NB.shield { @tasks << NB.async { serve(socket) } }
    @tasks.select!(&:alive?)
  end

  def serve(socket)
    while (path = socket.gets("\r\n\r\n")&.[](/ (\S+)/, 1))
      sleep(@random.rand(3) * 0.0002)
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: #{path.bytesize}\r\n\r\n#{path}")
      break if leave?(socket)
    end
  rescue SystemCallError
    nil # the client was cut
  ensure
    leave(socket)
  end

  # A process that was forked meanwhile has a copy, which a close alone would leave open.
  def leave(socket)
    socket.shutdown
  rescue SystemCallError
    nil # it is the other end that has left
  ensure
    socket.close
  end

  def leave?(socket)
    kind = @random.rand(4)
    Reset.on_close(socket) if kind.zero? && sleep(0.0003)
    kind < 2
  end
end

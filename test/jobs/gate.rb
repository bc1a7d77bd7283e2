# frozen_string_literal: true

require "socket"

# A service that answers nobody before so many wait at once, and everybody from then on: how many
# that are does not depend on how fast a busy machine begins jobs.
class QueueApp::Gate
  ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone"

  # @param count [Integer]
  def initialize(count)
    @count = count
    @waiting = []
    @server = TCPServer.new("127.0.0.1", 0)
    @thread = Thread.new { loop { let_in(@server.accept) } }
  end

  # Those that come from now on wait for each other anew.
  # @param count [Integer]
  def close_until(count)
    @count = count
    @open = false
  end

  # @return [String]
  def port = @server.local_address.ip_port.to_s

  def close
    @thread.kill.join
    [@server, *@waiting].each(&:close)
  end

  private

  def let_in(client)
    client.gets("\r\n\r\n")
    @waiting << client
    @open ||= @waiting.size >= @count
    answer(@waiting.shift) while @open && @waiting.any?
  end

  def answer(client)
    client.write(ANSWER)
    client.close
  rescue SystemCallError
    nil # it is gone
  end
end

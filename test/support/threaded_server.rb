# frozen_string_literal: true

require "socket"

# A server in plain threads, one for each client, for programs of their own. Whoever includes it
# calls `listen` when it is made, and has `converse(client)`.
module ThreadedServer
  # Serves without end.
  def run = loop { Thread.new(@server.accept) { |client| serve(client) } }

  private

  def listen(port)
    @server = TCPServer.new("127.0.0.1", port)
    @server.listen(1024)
  end

  def serve(client)
    client.setsockopt(:TCP, :NODELAY, 1)
    converse(client)
  rescue SystemCallError, IOError
    nil # the client is gone
  ensure
    client.close
  end
end

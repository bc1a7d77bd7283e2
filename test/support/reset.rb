# frozen_string_literal: true

require "socket"

# Ends a TCP connection with a reset (RST): the other end sees an error, not the end of the stream.
module Reset
  module_function

  def close(socket)
    on_close(socket)
    socket.close
  end

  # The close that follows resets the connection.
  def on_close(socket) = socket.setsockopt(Socket::Option.linger(true, 0))
end

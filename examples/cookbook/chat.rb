# frozen_string_literal: true

# A chat over TCP: each line goes to all others. A client that does not read is dropped.
#
# Run: ruby -Ilib examples/cookbook/chat.rb 4000, then: nc 127.0.0.1 4000
# Ctrl-C: reads no more lines, and writes what is queued to its end.

require "socket"
require "neverblock"

QUEUES = Hash.new # socket => lines to be written

def write(socket, queue)
  while (line = queue.pop)
    NB.timeout(5) { socket.write(line) }
  end
ensure
  socket.close
end

def serve(socket)
  queue = QUEUES[socket] = Thread::Queue.new(["#{QUEUES.size + 1} here\n"])
  NB.async(name: socket.inspect) { write(socket, queue) }.report_on_exception = false
  while (line = NB.until_stop { socket.gets })
    QUEUES.each_value { |other| other << line unless other == queue || other.size > 100 }
  end
rescue SystemCallError, IOError
  nil # gone
ensure
  QUEUES.delete(socket).close
end

NB.run(on_interrupt: :drain) do
  server = TCPServer.new("127.0.0.1", Integer(ARGV.fetch(0)))
  warn "on port #{server.addr[1]}"
  while (socket = NB.until_stop { server.accept })
    NB.async { serve(socket) }
  end
end

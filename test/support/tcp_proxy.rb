# frozen_string_literal: true

require_relative "clock"
require_relative "reset"
require_relative "threaded_server"

# A TCP proxy in plain threads, a program of its own: what the server says reaches the client late,
# or only so many bytes of it, and then a reset.
#
#   ruby tcp_proxy.rb PORT TARGET_PORT DELAY [BYTES]
class TCPProxy
  include Clock
  include ThreadedServer

  # @param delay [Float] seconds by which each answer is late
  # @param cut [Integer, nil] bytes of an answer after which the connection is reset
  def initialize(port:, target:, delay:, cut: nil)
    listen(port)
    @target = target
    @delay = delay
    @cut = cut
  end

  private

  def serve(client)
    server = TCPSocket.new("127.0.0.1", @target)
    [client, server].each { |io| io.setsockopt(:TCP, :NODELAY, 1) }
    late = Thread::Queue.new
    writing = Thread.new { write(late, client) }
    reading = Thread.new { read(server, late) }
    forward(client, server)
    [reading, writing].each(&:join)
  rescue SystemCallError, IOError
    nil # either side is gone
  ensure
    [client, server].compact.each { |io| io.close unless io.closed? }
  end

  def forward(client, server)
    loop { server.write(client.readpartial(65_536)) }
  rescue EOFError
    server.close_write
  end

  # Each piece with the time when it is due.
  def read(server, late)
    loop { late << [server.readpartial(65_536), clock + @delay] }
  rescue SystemCallError, IOError
    late << nil
  end

  def write(late, client)
    left = @cut
    while (piece, due = late.pop) && piece
      pause = due - clock
      sleep pause if pause.positive?
      client.write(left ? piece[0, left] : piece)
      return Reset.close(client) if left && (left -= piece.bytesize) <= 0
    end
    client.close_write
  rescue SystemCallError, IOError
    nil # the client is gone
  end
end

if $PROGRAM_NAME == __FILE__
  port, target, delay, cut = ARGV
  TCPProxy.new(port: Integer(port), target: Integer(target), delay: Float(delay),
               cut: cut && Integer(cut)).run
end

# frozen_string_literal: true

require "socket"
require_relative "reset"

# A TCP proxy that treats each connection to a fault: late, drop by drop, cut, reset or silent.
# Plain Ruby: it runs in strands of whatever world starts it.
class SlowProxy
  FAULTS = %i[none none late trickle cut reset silent].freeze

  attr_reader :port

  # @param target [Integer] port on 127.0.0.1 to forward to
  # @param random [Random] chooses the faults
  # @yield [block] how to start a strand
  def initialize(target, random, &spawn)
    @target = target
    @random = random
    @spawn = spawn
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @open = []
  end

  # Accepts until closed.
  def run
    loop do
      client = @server.accept
      fault = FAULTS.sample(random: @random)
      @spawn.call { serve(client, fault) }
    rescue Errno::EMFILE, Errno::ECONNABORTED
      sleep 0.005
    end
  rescue IOError, Errno::EBADF
    nil # closed
  end

  def close
    @server.close
    @open.each { |io| io.close unless io.closed? }
  end

  private

  def serve(client, fault)
    @open << client
    return if fault == :silent && client.wait_readable && wait_for_end(client)

    server = TCPSocket.new("127.0.0.1", @target)
    @open << server
    back = @spawn.call { pump(server, client, :none) }
    pump(client, server, fault)
    sleep 0.001 while back.alive? && !client.closed?
  rescue SystemCallError, IOError
    nil # either side is gone
  ensure
    [client, server].compact.each { |io| finish(io) }
  end

  def wait_for_end(client) = client.read

  def finish(io)
    io.close unless io.closed?
    @open.delete(io)
  end

  def pump(from, to, fault)
    left = @random.rand(1..20_000)
    loop do
      bytes = from.readpartial(fault == :trickle ? 50 : 16_384)
      sleep @random.rand(0.02) if fault == :late || fault == :trickle
      return cut(from, to, fault) if %i[cut reset].include?(fault) && (left -= bytes.bytesize) <= 0

      to.write(bytes)
    end
  rescue EOFError
    to.close_write unless to.closed?
  rescue SystemCallError, IOError
    nil # the other direction ended it
  end

  def cut(from, to, fault)
    [from, to].each do |io|
      Reset.on_close(io) if fault == :reset
      io.close
    end
  end
end

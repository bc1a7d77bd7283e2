# frozen_string_literal: true

require "socket"
require_relative "clock"
require_relative "reset"

# A TCP proxy in threads that holds a connection at one exact message, so that an interruption meets
# a statement at a known point: before the server has it, or after the server has carried it out and
# before its answer is there.
class HoldingProxy
  include Clock

  attr_reader :port
  # @return [Integer, nil] where the connection that is held comes from, as the server sees it
  attr_reader :held_port

  # @param target [Integer] port on 127.0.0.1
  # @param seconds [Float] for which a message is held
  def initialize(target, seconds)
    @target = target
    @seconds = seconds
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @told = Thread::Queue.new
    @pairs = []
    @accepting = Thread.new { accept }
  end

  # Holds the first message that matches, from now on.
  # @param side [Symbol] :request, :answer; or :cut, which resets both connections there
  def arm(pattern, side)
    @side = side
    @pattern = pattern
  end

  # @return [true, nil] true as soon as the message is held; nil after so many seconds
  def held(limit)
    deadline = clock + limit
    sleep(0.002) until (there = !@told.empty?) || clock > deadline
    there || nil
  end

  def held? = !@told.empty?

  # What is held goes on now.
  def release = @released = true

  # Waits until all that was sent has arrived, and what was closed is closed on both sides.
  def settle
    sleep(0.005) while @holding
    @pairs.each { |pumps| pumps.each { |pump| pump.join(3) } unless pumps.all?(&:alive?) }
  end

  def close
    @server.close
    @accepting.join
    @pairs.flatten.each(&:kill).each(&:join)
  end

  private

  def accept
    loop { serve(@server.accept) }
  rescue IOError, Errno::EBADF
    nil # closed
  end

  def serve(client)
    server = TCPSocket.new("127.0.0.1", @target)
    [client, server].each { |io| io.setsockopt(:TCP, :NODELAY, 1) }
    pair = { client: client, server: server, answers: Thread::Mutex.new }
    @pairs << [
      Thread.new { pump(client, server, pair) { |bytes| requests(bytes, pair) } },
      Thread.new { pump(server, client, pair) { |bytes| pair[:answers].synchronize { bytes } } }
    ]
  rescue SystemCallError
    client.close
  end

  def pump(from, to, pair)
    while (bytes = yield from.readpartial(65_536))
      to.write(bytes)
    end
  rescue SystemCallError, IOError
    nil # either side is gone
  ensure
    finish(to, pair)
  end

  def finish(to, pair)
    to.close_write unless to.closed?
    pair.slice(:client, :server).each_value(&:close) if to.equal?(pair[:client])
  rescue SystemCallError, IOError
    nil # it was gone
  end

  # @return [String, nil] what goes on; nil: nothing any more
  def requests(bytes, pair)
    pattern = @pattern
    return bytes unless pattern && bytes.b.match?(pattern)

    @pattern = nil
    @holding = true
    @held_port = pair[:server].local_address.ip_port
    @told << true
    __send__(@side, bytes, pair)
  ensure
    @holding = false if pattern && @pattern.nil? && @side != :answer
  end

  def request(bytes, _)
    pause
    bytes
  end

  # The server's answer waits for the lock, which a thread of its own has meanwhile.
  def answer(bytes, pair)
    locked = Thread::Queue.new
    Thread.new do
      pair[:answers].synchronize { locked.push(true) && pause }
      @holding = false
    end
    locked.pop
    bytes
  end

  def pause
    deadline = clock + @seconds
    sleep(0.002) until @released || clock > deadline
  end

  def cut(_, pair)
    pair.slice(:client, :server).each_value { |io| Reset.close(io) }
    nil
  end
end

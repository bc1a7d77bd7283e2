# frozen_string_literal: true

require "socket"

# Answers a line "NAME MILLISECONDS [no | third]" with NAME after that time, on a connection each;
# with "no", or "third" until the third time: with "no". It knows what it has been asked for.
class Service
  attr_reader :port, :begun, :answered, :abandoned, :peak, :answers

  def self.open
    service = new
    yield service
  ensure
    service.close
  end

  def initialize
    @begun = @answered = @abandoned = @running = @peak = 0
    @answers = []
    @times = []
    @lock = Mutex.new
    @changed = ConditionVariable.new
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @thread = Thread.new { loop { Thread.new(@server.accept) { |socket| serve(socket) } } }
  end

  def close
    @thread.kill.join
    @server.close
  end

  # @return [Boolean] whether the block has become true, within 30 seconds
  def wait_until
    limit = now + 30
    @lock.synchronize do
      @changed.wait(@lock, 1) until (done = yield) || now > limit
      done
    end
  end

  # @return [Float] seconds between the first beginning and the last
  def span = @times.last - @times.first

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def serve(socket)
    name, milliseconds, word = socket.gets.split
    no = count { note_beginning && (word == "no" || (word == "third" && @begun < 3)) }
    gone = socket.wait_readable(milliseconds.to_f / 1000)
    count { note_end(gone, no ? "no" : name) }
    socket.puts(no ? "no" : name) unless gone
  ensure
    socket.close
  end

  def note_beginning
    @begun += 1
    @running += 1
    @peak = [@peak, @running].max
    @times << now
  end

  def note_end(gone, answer)
    @running -= 1
    gone ? @abandoned += 1 : @answered += 1
    @answers << answer unless gone
  end

  def count
    @lock.synchronize { yield.tap { @changed.broadcast } }
  end
end

# frozen_string_literal: true

require_relative "../support/contract"
require_relative "../support/reset"

# wait, wait_readable, wait_writable, wait_priority with no timeout, zero and some seconds.
class WaitTest < Contract
  contract "wait_readable waits for data" do
    reader, writer = pair
    waiting = parked { reader.wait_readable }
    refute waiting.ended?
    writer.write("x")
    assert_same reader, waiting.value
  end

  contract "wait_readable with data is true at once, with a zero timeout too" do
    reader, writer = pair
    writer.write("x")
    assert_same reader, polled { reader.wait_readable(0) }
    assert_same reader, reader.wait_readable(1)
    assert_same reader, reader.wait_readable
  end

  contract "a zero timeout polls and tells the truth" do
    reader, writer = pair
    assert_nil reader.wait_readable(0)
    assert_same writer, polled { writer.wait_writable(0) }
    fill(writer)
    assert_nil writer.wait_writable(0)
    reader.readpartial(1_000_000) while polled { reader.wait_readable(0) }
    assert_same writer, polled { writer.wait_writable(0) }
  end

  contract "a zero timeout after a wait that was satisfied and drained" do
    reader, writer = pair
    3.times do
      waiting = parked { reader.wait_readable }
      writer.write("x")
      waiting.value
      assert_same reader, polled { reader.wait_readable(0) }
      reader.sysread(1)
      assert_nil reader.wait_readable(0)
    end
  end

  # As ActiveSupport::Duration, which is no Numeric and knows no to_f that C would take.
  contract "a timeout is whatever has divmod" do
    reader, writer = pair
    seconds = ->(count) { Class.new { define_method(:divmod) { |_| count.divmod(1) } }.new }
    assert_nil(assert_takes(0.01) { reader.wait_readable(seconds[0.01r]) })
    assert_nil reader.wait_readable(seconds[0])
    assert_nil(assert_takes(0.01) { reader.wait(IO::READABLE, seconds[0.01r]) })
    assert_same writer, writer.wait_writable(seconds[5])
  end

  contract "wait_readable ends after its timeout, never early" do
    reader, = pair
    [0.001, 0.01, 0.05].each do |seconds|
      assert_nil(assert_takes(seconds) { reader.wait_readable(seconds) })
    end
  end

  contract "wait_writable on a full socket ends after its timeout" do
    _, writer = pair
    fill(writer)
    assert_nil(assert_takes(0.05) { writer.wait_writable(0.05) })
  end

  contract "wait_writable ends when there is room" do
    reader, writer = pair
    fill(writer)
    waiting = parked { writer.wait_writable(5) }
    refute waiting.ended?
    reader.readpartial(1_000_000) while polled { reader.wait_readable(0) }
    assert_same writer, waiting.value
  end

  # Ruby 3.1 answers the IO itself, later Rubies the events.
  contract "wait for both directions answers only what is ready", ruby: ">= 3.2" do
    reader, writer = pair
    assert_equal IO::WRITABLE, reader.wait(IO::READABLE | IO::WRITABLE, 1)
    writer.write("x")
    assert_equal IO::READABLE | IO::WRITABLE, reader.wait(IO::READABLE | IO::WRITABLE, 1)
    assert_equal IO::READABLE, reader.wait(IO::READABLE, 1)
    fill(reader)
    assert_equal IO::READABLE, reader.wait(IO::READABLE | IO::WRITABLE, 1)
  end

  same_as_threads "wait with events, at once and after a while" do
    reader, writer = pair
    both = IO::READABLE | IO::WRITABLE
    at_once = polled { reader.wait(IO::WRITABLE, 0) }
    first = [reader.wait(both, 1), at_once, reader.wait(IO::READABLE, 0)]
    waiting = parked { reader.wait(IO::READABLE, 1) }
    writer.write("x")
    [*first, waiting.value, reader.wait(both, 1)].map { |answer| answer.is_a?(IO) ? :io : answer }
  end

  same_as_threads "wait with events and a timeout that passes" do
    reader, = pair
    [reader.wait(IO::READABLE, 0), reader.wait(IO::READABLE, 0.01), reader.wait(0.01)].inspect
  end

  # Of other bits nothing ever comes; but a hangup, an error and a close end every wait.
  same_as_threads "events that do not exist" do
    reader, writer = keep(*IO.pipe)
    writer.write("x")
    answers = [8, 16, 1024].map { |events| reader.wait(events, 0.01) } << reader.wait(8, 0)
    closed = parked { outcome { writer.wait(8, nil) } }
    writer.close
    [*answers, closed.value, reader.wait(8, nil), reader.wait(IO::PRIORITY, nil)]
  end

  same_as_threads "an error tells more than was asked for", ruby: ">= 3.2" do
    ends = keep(*IO.pipe)
    ends.first.close
    [IO::READABLE, IO::PRIORITY, 3, 5, 7, 8].map { |events| ends.last.wait(events, 1) }
  end

  contract "wait with symbols and seconds" do
    reader, writer = pair
    assert_nil reader.wait(0, :read)
    writer.write("x")
    assert reader.wait(0, :read)
    assert reader.wait(1, :read_write)
    assert_same reader, reader.wait(0)
  end

  contract "data in Ruby's own buffer counts as readable" do
    reader, writer = pair
    writer.write("one\ntwo\n")
    assert_equal "one\n", reader.gets
    assert(polled { reader.wait_readable(0) })
    assert reader.wait_readable
    assert_equal "two\n", reader.gets
    assert_nil reader.wait_readable(0)
  end

  contract "the end of the stream is readable" do
    reader, writer = pair
    waiting = parked { reader.wait_readable }
    writer.close
    assert_same reader, waiting.value
    assert_same reader, polled { reader.wait_readable(0) }
    assert_nil reader.read(1)
  end

  contract "a reset connection is readable and raises on read" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    client = keep(TCPSocket.new("127.0.0.1", server.addr[1]))
    peer = server.accept
    waiting = parked { client.wait_readable }
    Reset.close(peer)
    assert_same client, waiting.value
    assert_raises(Errno::ECONNRESET) { client.readpartial(1) }
  end

  contract "many wait for the same fd, all wake" do
    reader, writer = pair
    waiting = Array.new(10) { parked { reader.wait_readable(5) } }
    writer.write("x")
    assert_equal [reader] * 10, waiting.map(&:value)
  end

  contract "one waits to read and one to write, on one fd" do
    reader, writer = pair
    fill(writer)
    room = parked { writer.wait_writable(5) }
    data = parked { writer.wait_readable(5) }
    reader.write("x")
    assert_same writer, data.value
    refute room.ended?
    reader.readpartial(1_000_000) while polled { reader.wait_readable(0) }
    assert_same writer, room.value
  end

  contract "wait_priority sees urgent data" do
    client, server = Streams.tcp(self)
    waiting = parked { server.wait_priority(5) }
    refute waiting.ended?
    client.send("!", Socket::MSG_OOB)
    assert waiting.value
    assert_equal "!", server.recv(1, Socket::MSG_OOB)
  end

  contract "a stale timeout does not end the next wait" do
    reader, writer = pair
    20.times do |i|
      waiting = parked { reader.wait_readable(0.2 + (i * 0.001)) && reader.sysread(1) }
      writer.write("x")
      assert_equal "x", waiting.value
    end
    assert_nil(assert_takes(0.3) { reader.wait_readable(0.3) })
  end

  same_as_threads "waiting on a closed IO" do
    reader, writer = pair
    reader.close
    writer.close
    [outcome { reader.wait_readable(0) }, outcome { reader.wait_readable },
     outcome { writer.wait_writable(0.1) }, outcome { reader.wait(IO::READABLE, 0) }].inspect
  end

  same_as_threads "wrong arguments of the wait methods" do
    reader, = pair
    [outcome { reader.wait_readable("soon") }, outcome { reader.wait(IO::READABLE, Object.new) },
     outcome { reader.wait_readable(-1) }].inspect.gsub(/0x\h+/, "")
  end

  # UNIX sockets: both ends speak, buffers are small and fixed.
  def pair = keep(*UNIXSocket.pair)

  def fill(socket)
    nil while socket.write_nonblock("x" * 65_536, exception: false) != :wait_writable
  end
end

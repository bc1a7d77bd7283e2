# frozen_string_literal: true

require "fiddle"
require "io/console"
require "pty"
require_relative "../support/contract"

# Closing while others wait, and fd numbers that come back as something else.
class CloseTest < Contract
  WAITS = {
    "read" => ->(io) { io.read(1) }, "gets" => ->(io) { io.gets },
    "readpartial" => ->(io) { io.readpartial(10) }, "sysread" => ->(io) { io.sysread(10) },
    "recv" => ->(io) { io.recv(10) }, "wait_readable" => ->(io) { io.wait_readable },
    "wait_readable with a timeout" => ->(io) { io.wait_readable(5) },
    "recvmsg" => ->(io) { io.recvmsg }
  }.freeze

  WAITS.each do |name, wait|
    same_as_threads "close wakes a #{name} with IOError" do
      reader, = keep(*UNIXSocket.pair)
      waiting = parked { wait.call(reader) }
      reader.close
      assert_predicate reader, :closed?
      error = waiting.failure
      [error.class, error.message]
    end
  end

  same_as_threads "the error of a closed sysread has no cause" do
    reader, = keep(*IO.pipe)
    waiting = parked { reader.sysread(1) }
    reader.close
    [waiting.failure, waiting.failure.cause].map(&:inspect)
  end

  same_as_threads "close of a frozen IO writes what is left" do
    reader, writer = keep(*IO.pipe)
    writer.sync = false
    writer.write("left")
    writer.freeze.close
    [writer.closed?, reader.read]
  end

  same_as_threads "close wakes a writer" do
    _, writer = keep(*UNIXSocket.pair)
    waiting = parked { writer.write("x" * 5_000_000) }
    writer.close
    error = waiting.failure
    [error.class, error.message]
  end

  %w[controlling controlled].each_with_index do |side, index|
    same_as_threads "close wakes who writes to a full terminal, #{side} side" do
      terminal = keep(*PTY.open).each(&:raw!)[index]
      terminal.write("x" * 4095) # so that at last there is room, but too little
      waiting = parked { terminal.write("x" * 1_000_000) }
      sleep 0.05 # until it is full; the answer is the same before
      terminal.close
      error = waiting.failure
      [error.class, error.message]
    end
  end

  same_as_threads "close wakes an accept" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    waiting = parked { server.accept }
    server.close
    error = waiting.failure
    [error.class, error.message]
  end

  same_as_threads "close of a pipe wakes its reader" do
    reader, = keep(*IO.pipe)
    waiting = parked { reader.read }
    reader.close
    error = waiting.failure
    [error.class, error.message]
  end

  contract "close wakes all who wait for it" do
    reader, = keep(*UNIXSocket.pair)
    waiting = Array.new(5) { parked { reader.wait_readable } }
    reader.close
    assert_equal [IOError] * 5, waiting.map { |strand| strand.failure.class }
  end

  contract "close comes back and the closer goes on" do
    reader, = keep(*UNIXSocket.pair)
    waiting = parked { reader.read(1) }
    closing = strand { reader.close }
    assert_nil closing.value
    assert_kind_of IOError, waiting.failure
  end

  contract "the fd of a closed IO, used again, starts clean" do
    20.times do
      first, peer = UNIXSocket.pair
      number = first.fileno
      waiting = parked { outcome { first.read(1) } }
      first.close
      assert_equal IOError, waiting.value.first
      second, other = keep(*UNIXSocket.pair)
      assert_includes [second.fileno, other.fileno], number
      assert_nil second.wait_readable(0.001)
      arriving = parked { second.read(1) }
      other.write("x")
      assert_equal "x", arriving.value
      [peer, second, other].each(&:close)
    end
  end

  # One turn of the loop wakes both: first the one who closes, then the one who waits for the fd.
  # When that one runs, the number belongs to another file.
  { "read" => ->(io) { io.read(1) }, "readpartial" => ->(io) { io.readpartial(1) },
    "sysread" => ->(io) { io.sysread(1) } }.each do |name, wait|
    { "socket" => UNIXSocket.method(:pair), "pipe" => IO.method(:pipe) }.each do |kind, make|
      contract "a #{name} of a #{kind} woken just before the close leaves the next file alone",
               chaos: false do
        first, peer = keep(*make.call)
        waiting = parked { outcome { wait.call(first) } }
        second, other = closed_and_used_again(first, make) { peer.write("x") }
        other.write("y")
        assert_includes ["x", IOError], Array(waiting.value).first
        assert_equal "y", second.read(1)
      end
    end
  end

  contract "a recv woken just before the close leaves the next file alone", chaos: false do
    first, peer = keep(*UNIXSocket.pair)
    waiting = parked { outcome { first.recv(1) } }
    second, other = closed_and_used_again(first, UNIXSocket.method(:pair)) { peer.write("x") }
    other.write("y")
    assert_includes ["x", IOError], Array(waiting.value).first
    assert_equal "y", second.read(1)
  end

  contract "a write woken just before the close leaves the next file alone", only: :fibers,
           chaos: false do
    first, peer = keep(*UNIXSocket.pair)
    waiting = parked { outcome { first.write("x" * 5_000_000) } }
    pair = closed_and_used_again(first, UNIXSocket.method(:pair)) do
      Fiber.new(blocking: true) do # without the scheduler, which now and then lets others run
        nil until peer.read_nonblock(1_000_000, exception: false) == :wait_readable
      end.resume
    end
    assert_equal IOError, Array(waiting.value).first
    assert_equal [nil, nil], pair.map { |io| io.wait_readable(0.01) }
  end

  contract "an fd closed by C and used again by Ruby still wakes its waiter" do
    first, peer = UNIXSocket.pair
    assert_nil first.wait_readable(0.001)
    number = first.fileno
    close_in_c(first)
    second, other = keep(*UNIXSocket.pair)
    assert_includes [second.fileno, other.fileno], number
    reused, far = second.fileno == number ? [second, other] : [other, second]
    arriving = parked { reused.read(1) }
    far.write("x")
    assert_equal "x", arriving.value
    room = parked { reused.wait_writable(1) }
    assert_same reused, room.value
    peer.close
  end

  contract "an fd closed by C whose socket lives on elsewhere wakes nobody wrongly" do
    first, peer = keep(*UNIXSocket.pair)
    assert_nil first.wait_readable(0.001)
    copy = keep(first.dup)
    number = first.fileno
    close_in_c(first)
    second, other = keep(*UNIXSocket.pair)
    reused, far = second.fileno == number ? [second, other] : [other, second]
    waiting = parked { reused.wait_readable(0.05) }
    5.times { peer.write("for the copy") && sleep(0.005) }
    assert_nil waiting.value
    arriving = parked { reused.read(1) }
    far.write("y")
    assert_equal "y", arriving.value
    assert_equal "for the copy", copy.readpartial(12)
  end

  contract "two IO objects on one fd" do
    reader, writer = keep(*UNIXSocket.pair)
    second = IO.for_fd(reader.fileno, autoclose: false)
    one = parked { reader.wait_readable(5) }
    two = parked { second.wait_readable(5) }
    writer.write("x")
    assert_same reader, one.value
    assert_same second, two.value
    assert_equal "x", second.sysread(1)
  end

  contract "dup waits apart from the original" do
    reader, writer = keep(*UNIXSocket.pair)
    copy = keep(reader.dup)
    waiting = parked { copy.readpartial(1) }
    reader.close
    sleep 0.002
    refute waiting.ended?
    writer.write("x")
    assert_equal "x", waiting.value
  end

  contract "reopen gives the fd a new stream" do
    reader, writer = keep(*IO.pipe)
    assert_nil reader.wait_readable(0.001)
    other, far = keep(*IO.pipe)
    reader.reopen(other)
    waiting = parked { reader.readpartial(1) }
    writer.write("a") rescue Errno::EPIPE
    far.write("b")
    assert_equal "b", waiting.value
  end

  # The child's own child keeps the other end open.
  {"one" => "r", "two" => "r+"}.each do |ways, mode|
    contract "the end of the block of a popen of #{ways} way wakes a read", gap: nil do
      waiting = keeper = nil
      IO.popen("sleep 60 & echo $!", mode) do |io|
        keeper = Integer(io.gets)
        waiting = parked { io.read(1) }
      end
      assert_equal [IOError, "stream closed in another thread"], outcome { waiting.value }
    ensure
      Process.kill(:KILL, keeper) if keeper
    end
  end

  contract "the end of the block of PTY.open wakes a read" do
    waiting = nil
    PTY.open { |master, _| waiting = parked { master.read(1) } }
    assert_equal [IOError, "stream closed in another thread"], outcome { waiting.value }
  end

  same_as_threads "the value of the block of PTY.open, and what it closes" do
    sides = nil
    values = [PTY.open { |master, slave| (sides = [master, slave]).size }, PTY.open { break 5 },
              outcome { PTY.open { raise "x" } }, PTY.open { |two| two.each(&:close).size }]
    [values, sides.map(&:closed?), PTY.open.map(&:close)]
  end

  # The peer takes nothing, and goes.
  contract "close of a socket that lingers lets others run" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    client = TCPSocket.new("127.0.0.1", server.addr[1])
    peer = server.accept
    client.setsockopt(Socket::Option.linger(true, 5))
    nil until client.write_nonblock("x" * 100_000, exception: false) == :wait_writable
    going = Thread.new { sleep(0.1) && peer.close }
    assert_nil client.close
    assert_equal [true, true], [client, peer].map(&:closed?)
    going.join
  end

  contract "close_read and close_write of a socket" do
    one, two = keep(*UNIXSocket.pair)
    one.close_write
    assert_nil two.gets
    two.write("x")
    assert_equal "x", one.read(1)
    one.close_read
    assert_predicate one, :closed?
  end

  same_as_threads "close_read and close_write of what is closed", gap: nil do
    reader, writer = IO.pipe
    pipes = [reader, writer].each(&:close)
    child = IO.popen("cat", "r+").tap(&:close_write).tap(&:close_read)
    [*pipes, child].flat_map { |io| [io.close_read, io.close_write, io.close] }
  end

  contract "close twice and close of what nobody waits for" do
    one, two = UNIXSocket.pair
    assert_nil one.close
    assert_nil one.close
    two.close
    assert_raises(IOError) { two.read }
  end

  # A strand that waits closes io and opens a new pair when it is woken, in the same turn as those
  # whom the block wakes. @return the pair
  def closed_and_used_again(io, make)
    gate, opener = keep(*UNIXSocket.pair)
    closing = parked do
      gate.read(1)
      io.close
      keep(*make.call)
    end
    opener.write("x")
    begin
      yield
    rescue Errno::EPIPE
      nil # that write took its slice, and the others had their turn: io is closed already
    end
    closing.value
  end

  # What a C library does: Ruby does not learn of it.
  def close_in_c(io)
    @close ||= Fiddle::Function.new(Fiddle.dlopen(nil)["close"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT)
    io.autoclose = false
    @close.call(io.fileno)
  end
end

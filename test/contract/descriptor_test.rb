# frozen_string_literal: true

require "fiddle"
require_relative "../support/contract"

# What a hook does with an fd while others run: they close it, use its number again, put another
# file behind it, or end one direction of it.
class DescriptorContract < Contract
  # Ruby warns once that IO::Buffer is experimental.
  Warning[:experimental] = false

  CLOSED = [IOError, "stream closed in another thread"].freeze

  # ---- a hook that lets others run before it begins --------------------------------------------

  USES = {
    "read" => ->(io) { io.readpartial(1) }, "write" => ->(io) { io.write("A") },
    "recv" => ->(io) { io.recv(1) }, "send" => ->(io) { io.send("A", 0) },
    "wait_readable" => ->(io) { io.wait_readable(0) },
    "IO.select" => ->(io) { IO.select([io], nil, nil, 0) }
  }.freeze

  USES.each do |name, use|
    contract "#{name} on an IO that is closed in its turn leaves the next file alone",
             only: :fibers, gap: nil do
      mine, peer = keep(*UNIXSocket.pair)
      peer.write("a" * 20_000)
      using = strand { loop { use.call(mine) } } # comes back at its first turn for others
      refute_predicate using, :ended?
      number = mine.fileno
      mine.close
      pair = keep(*UNIXSocket.pair)
      assert_includes pair.map(&:fileno), number
      pair.each { |io| io.write("b") }
      assert_kind_of IOError, using.failure
      assert_equal(%w[b b], pair.map { |io| io.readpartial(100) })
    end
  end

  contract "a file closed while a thread writes it keeps its number to itself", only: :fibers,
                                                                                chaos: false do
    Tempfile.create do |mine|
      Tempfile.create do |other|
        mine.sync = true
        writing = strand { mine.write("A" * 1_000_000) } # by an offload thread
        refute_predicate writing, :ended?
        number = mine.fileno
        mine.close
        reused = keep(File.open(other.path, "r+"))
        assert_equal number, reused.fileno
        assert_equal CLOSED, [writing.failure.class, writing.failure.message]
        assert_equal 0, File.size(other.path)
      end
    end
  end

  contract "what a thread writes to is not inherited", only: :fibers do
    Tempfile.create do |file|
      file.sync = true
      before = open_numbers
      copies = []
      while copies.empty? # a strand whose turn is over gives way before it writes
        writing = strand { file.write("A" * 1_000_000) }
        copies = (open_numbers - before).map { |fd| close_on_exec?(fd) }
        assert_equal 1_000_000, writing.value
      end
      assert_equal [true], copies
    end
  end

  # ---- half of it ------------------------------------------------------------------------------

  PAIRS = {
    "UNIX" => -> { UNIXSocket.pair },
    "TCP" => lambda {
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
      [client, server.accept].tap { server.close }
    }
  }.freeze

  PAIRS.each do |kind, make|
    same_as_threads "a #{kind} peer that sends no more still takes what is written" do
      mine, peer = keep(*make.call)
      writing = parked { mine.write("x" * 10_000_000) }
      peer.close_write
      sleep 0.005
      [writing.ended?, peer.read(10_000_000).bytesize, writing.value]
    end

    same_as_threads "a #{kind} peer that sends no more wakes nobody who waits to write" do
      mine, peer = keep(*make.call)
      mine.write_nonblock("x" * 10_000_000)
      waiting = parked { mine.wait_writable.equal?(mine) }
      selecting = parked { IO.select(nil, [mine])&.map(&:size) }
      peer.close_write
      sleep 0.02
      early = [waiting.ended?, selecting.ended?]
      until waiting.ended? && selecting.ended?
        peer.read_nonblock(1_000_000, exception: false)
        sleep 0.001
      end
      [early, waiting.value, selecting.value]
    end
  end

  contract "a peer that sends no more does not keep a select for writing busy", only: :fibers do
    mine, peer = keep(*UNIXSocket.pair)
    mine.write_nonblock("x" * 10_000_000)
    selecting = parked { IO.select(nil, [mine]) }
    peer.close_write
    sleep 0.001
    before = scheduler.stats[:io_waits]
    10.times { sleep 0.001 }
    assert_equal before, scheduler.stats[:io_waits]
    peer.close
    assert_equal [[], [mine], []], selecting.value
  end

  same_as_threads "close_write of a two-way pipe wakes its writer", gap: nil do
    io = keep(IO.popen("exec sleep 60", "r+"))
    writing = parked { outcome { io.write("x" * 1_000_000) } }
    io.close_write
    writing.value
  ensure
    Process.kill(:KILL, io.pid)
  end

  contract "close of a two-way pipe wakes its writer", only: :fibers, gap: nil do
    io = keep(IO.popen("exec sleep 60", "r+"))
    pid = io.pid
    writing = parked { outcome { io.write("x" * 1_000_000) } }
    killing = strand { writing.join && Process.kill(:KILL, pid) }
    io.close # waits for the child
    assert_equal CLOSED, writing.value
    killing.value
  end

  %i[close_read close_write].each do |name|
    same_as_threads "#{name} of a one-way pipe wakes who waits" do
      reader, writer = keep(*IO.pipe)
      io = name == :close_read ? reader : writer
      waiting = parked { outcome { name == :close_read ? io.read : io.write("x" * 1_000_000) } }
      io.public_send(name)
      waiting.value
    end

    same_as_threads "#{name} leaves the other direction of a socket alone" do
      mine, peer = keep(*UNIXSocket.pair)
      reading = parked { outcome { mine.read(1) } }
      mine.public_send(name)
      sleep 0.002
      peer.write("x") if name == :close_write
      [reading.value]
    end
  end

  same_as_threads "the second half that is closed wakes a reader" do
    mine, = keep(*UNIXSocket.pair)
    mine.close_write
    reading = parked { outcome { mine.read(1) } }
    mine.close_read
    reading.value
  end

  # ---- another file behind it ------------------------------------------------------------------

  { "socket" => UNIXSocket.method(:pair), "pipe" => IO.method(:pipe) }.each do |kind, make|
    same_as_threads "reopen wakes who reads from the #{kind}" do
      reader, = keep(*make.call)
      other, far = keep(*IO.pipe)
      plain = keep(IO.for_fd(reader.fileno, autoclose: false))
      far.write("other")
      waiting = parked { outcome { plain.read(5) } }
      plain.reopen(other)
      waiting.value
    end
  end

  SOCKET_TO_PIPE = {
    "reopen" => ->(io, other) { io.reopen(other) },
    "dup2" => lambda { |io, other|
      Fiddle::Function.new(Fiddle.dlopen(nil)["dup2"], [Fiddle::TYPE_INT] * 2, Fiddle::TYPE_INT)
        .call(other.fileno, io.fileno)
    }
  }.freeze

  SOCKET_TO_PIPE.each do |name, replace|
    same_as_threads "what was a socket reads and writes a pipe after #{name}" do
      mine, peer = keep(*UNIXSocket.pair)
      waiting = parked { 3.times.map { mine.readpartial(5) } }
      3.times { peer.write("hello") && sleep(0.002) }
      waiting.value
      reader, writer = keep(*IO.pipe)
      io = name == "dup2" ? mine : keep(IO.for_fd(mine.fileno, "r+", autoclose: false))
      io.sync = true
      writer.write("from the pipe")
      replace.call(io, reader)
      [io.readpartial(100), replace.call(io, writer) && io.write("back"), reader.readpartial(100)]
    end
  end

  # ---- one attempt is one attempt --------------------------------------------------------------

  contract "read_nonblock of a plain IO over a socket waits for nothing" do
    mine, peer = keep(*UNIXSocket.pair)
    io = keep(IO.for_fd(mine.fileno, "r+", autoclose: false))
    assert_equal :wait_readable, io.read_nonblock(10, exception: false)
    waiting = parked { io.readpartial(10) }
    peer.write("one")
    assert_equal "one", waiting.value
    assert_equal :wait_readable, io.read_nonblock(10, exception: false)
    peer.write("two") # and nobody tells the loop
    assert_equal "two", io.read_nonblock(10, exception: false)
  end

  contract "a buffer that is read into cannot be freed", only: :fibers do
    mine, peer = keep(*UNIXSocket.pair)
    buffer = IO::Buffer.new(100)
    reading = parked { buffer.read(mine, 10) }
    assert_raises(IO::Buffer::LockedError) { buffer.free }
    peer.write("0123456789")
    assert_equal 10, reading.value
    assert_equal "0123456789", buffer.get_string(0, 10)
    buffer.free
  end

  contract "a buffer that two read into is locked until both have ended", only: :fibers do
    pairs = Array.new(2) { keep(*UNIXSocket.pair) }
    buffer = IO::Buffer.new(100)
    readings = pairs.map { |mine, _| parked { buffer.read(mine, 10) } }
    pairs.each_with_index do |(_, peer), i|
      assert_raises(IO::Buffer::LockedError) { buffer.free }
      peer.write(i.to_s * 10)
      assert_equal 10, readings[i].value
    end
    assert_equal "1111111111", buffer.get_string(0, 10)
    buffer.free
  end

  contract "an interrupted read gives its buffer back", only: :fibers do
    mine, = keep(*UNIXSocket.pair)
    buffer = IO::Buffer.new(100)
    reading = strand { buffer.read(mine, 10) }
    reading.interrupt(RuntimeError.new("enough"))
    assert_equal "enough", reading.failure.message
    refute_predicate buffer, :locked?
    buffer.free
  end

  private

  def open_numbers
    numbers = Dir.children("/proc/self/fd").map(&:to_i)
    numbers.select { |fd| File.exist?("/proc/self/fd/#{fd}") } # without that of the folder
  end

  def close_on_exec?(number)
    flags = File.read("/proc/self/fdinfo/#{number}")[/flags:\s+(\d+)/, 1].to_i(8)
    flags.anybits?(0o2000000)
  end
end

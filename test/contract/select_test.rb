# frozen_string_literal: true

require_relative "../support/contract"

# IO.select: all lists, all timeouts, what counts as ready, what is refused.
class SelectTest < Contract
  contract "waits for the first that is readable" do
    one, two = Array.new(2) { pair }
    ready = parked { IO.select([one[0], two[0]]) }
    refute ready.ended?
    two[1].write("x")
    assert_equal [[two[0]], [], []], ready.value
  end

  contract "answers several lists at once" do
    reader, writer = pair
    writer.write("x")
    assert_equal [[reader], [reader, writer], []], IO.select([reader, writer], [reader, writer])
    assert_equal [[reader], [writer], []], IO.select([reader], [writer], [reader])
  end

  contract "a zero timeout polls" do
    reader, writer = pair
    assert_nil IO.select([reader], nil, nil, 0)
    assert_equal [[], [writer], []], IO.select(nil, [writer], nil, 0)
    writer.write("x")
    assert_equal [[reader], [], []], IO.select([reader], nil, nil, 0)
  end

  contract "a timeout that passes answers nil, never early" do
    reader, = pair
    [0.001, 0.03].each do |seconds|
      assert_nil(assert_takes(seconds) { IO.select([reader], nil, nil, seconds) })
    end
  end

  contract "a timeout is whatever has divmod" do
    reader, writer = pair
    seconds = ->(count) { Class.new { define_method(:divmod) { |_| count.divmod(1) } }.new }
    assert_nil(assert_takes(0.01) { IO.select([reader], nil, nil, seconds[0.01r]) })
    assert_nil IO.select([reader], nil, nil, seconds[0])
    writer.write("x")
    assert_equal [[reader], [], []], IO.select([reader], nil, nil, seconds[5])
  end

  # Ruby 4.0 takes it for no timeout; before, it is out of range.
  same_as_threads "an infinite timeout" do
    reader, writer = keep(*IO.pipe)
    waiting = strand { outcome { IO.select([reader], nil, nil, Float::INFINITY).map(&:size) } }
    writer.write("x")
    [waiting.value, outcome { IO.select([reader], nil, nil, -Float::INFINITY) }]
  end

  contract "no list at all sleeps" do
    assert_nil(assert_takes(0.02) { IO.select(nil, nil, nil, 0.02) })
    assert_nil(assert_takes(0.01) { IO.select([], [], [], 0.01) })
    assert_nil(assert_takes(0.01) { Kernel.select([], nil, nil, 0.01) })
  end

  # Nobody writes to the reading end; a hangup is no room there either.
  same_as_threads "to write to a pipe's reading end, when all writers have gone" do
    reader, writer = keep(*IO.pipe)
    writer.close
    never = [0, 0.01].map { |seconds| IO.select(nil, [reader], nil, seconds) }
    [*never, IO.select([reader], [reader]).map(&:size)]
  end

  same_as_threads "what says that one was closed, before and meanwhile" do
    reader, writer = keep(*IO.pipe)
    closed = parked { outcome { IO.select([reader], nil, nil, 0.1) } }
    reader.close
    [closed.value, outcome { IO.select([reader]) }, outcome { IO.select(nil, [reader, writer]) }]
  end

  # A regular file is always ready to be read and written, and never anything else.
  same_as_threads "the exceptional state of a regular file" do
    file = keep(Tempfile.create("nb").tap { |one| File.unlink(one.path) })
    reader, writer = keep(*IO.pipe)
    later = strand { sleep(0.02) && writer.write("x") }
    selected = [IO.select(nil, nil, [file], 0.01), IO.select([reader], nil, [file])]
    later.value
    [selected.map { |lists| lists&.map(&:size) }, file.wait(IO::PRIORITY, 0.01)]
  end

  contract "Kernel#select is the same" do
    reader, writer = pair
    ready = parked { select([reader], nil, nil, 5) }
    writer.write("x")
    assert_equal [[reader], [], []], ready.value
  end

  contract "buffered data counts as readable" do
    reader, writer = pair
    writer.write("one\ntwo\n")
    reader.gets
    assert_equal [[reader], [], []], IO.select([reader], nil, nil, 0)
    assert_equal [[reader], [], []], IO.select([reader])
  end

  contract "buffered data in one does not hide another that is ready" do
    one, two = Array.new(2) { pair }
    one[1].write("a\nb\n")
    one[0].gets
    two[1].write("x")
    ready, = IO.select([one[0], two[0]], nil, nil, 0)
    assert_includes ready, one[0]
  end

  contract "objects with to_io are answered themselves" do
    reader, writer = pair
    wrapper = Struct.new(:to_io).new(reader)
    ready = parked { IO.select([wrapper]) }
    writer.write("x")
    assert_equal [[wrapper], [], []], ready.value
  end

  contract "a socket among the exceptional ones tells of urgent data" do
    client, server = Streams.tcp(self)
    ready = parked { IO.select([], [], [server], 5) }
    client.send("!", Socket::MSG_OOB)
    assert_equal [[], [], [server]], ready.value
  end

  # @return [Float] seconds on a CPU, without those of the collector
  def computing
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - (GC.total_time / 1e9)
  end

  # And nobody looks for it again and again.
  {"a socket" => -> { UNIXSocket.pair }, "a pipe" => -> { IO.pipe }}.each do |name, make|
    contract "the hang-up of #{name} is not exceptional" do
      reader, writer = keep(*make.call)
      strand { sleep(0.01) && writer.close }
      used = computing
      assert_nil(assert_takes(0.1) { IO.select(nil, nil, [reader], 0.1) })
      assert_nil IO.select(nil, nil, [reader], 0)
      assert_operator computing - used, :<, 0.05
      assert_equal [[reader], [], []], IO.select([reader], nil, [reader])
    end
  end

  contract "one IO in two lists, and twice in one" do
    reader, writer = pair
    writer.write("x")
    assert_equal [[reader], [reader], []], IO.select([reader], [reader], nil, 1)
    ready, = IO.select([reader, reader], nil, nil, 1)
    assert_equal [reader], ready.uniq
  end

  contract "the end of a stream is readable" do
    reader, writer = pair
    ready = parked { IO.select([reader], nil, nil, 5) }
    writer.close
    assert_equal [[reader], [], []], ready.value
  end

  contract "listening sockets are readable when a client comes" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    ready = parked { IO.select([server]) }
    keep(TCPSocket.new("127.0.0.1", server.addr[1]))
    assert_equal [[server], [], []], ready.value
    keep(server.accept)
  end

  contract "pipes and sockets together" do
    reader, writer = keep(*IO.pipe)
    socket, = pair
    ready = parked { IO.select([reader, socket], nil, nil, 5) }
    writer.write("x")
    assert_equal [[reader], [], []], ready.value
  end

  contract "ready again and again", gap: 0.030 do
    reader, writer = pair
    echo = strand { 200.times { IO.select([reader]) && reader.readpartial(1) } }
    200.times { writer.write("x") && sleep(0) }
    assert echo.value
  end

  same_as_threads "closed and wrong arguments" do
    reader, = pair
    closed, = pair
    closed.close
    [outcome { IO.select([closed]) }, outcome { IO.select([reader, closed], nil, nil, 0) },
     outcome { IO.select([Object]) }, outcome { IO.select([nil]) }, outcome { IO.select(1) },
     outcome { IO.select([reader], nil, nil, -1) }, outcome { IO.select([reader], nil, nil, "x") },
     outcome { IO.select }, outcome { IO.select([reader], 1, nil, 0) }].inspect
  end

  contract "many fds, one of them ready", gap: 0.060 do
    pairs = Array.new(300) { pair }
    ready = parked { IO.select(pairs.map(&:first), nil, nil, 5) }
    pairs[211][1].write("x")
    assert_equal [[pairs[211][0]], [], []], ready.value
  end

  contract "fds above 1024", gap: 0.100 do
    low = Array.new(600) { pair }
    high = pair
    assert_operator high[0].fileno, :>, 1024
    ready = parked { IO.select([low[0][0], high[0]], [], nil, 5) }
    high[1].write("x")
    assert_equal [[high[0]], [], []], ready.value
  end

  contract "close while another selects" do
    reader, writer = pair
    other, = pair
    ready = parked { outcome { IO.select([reader, other], nil, nil, 5) } }
    writer.write("x")
    assert_equal [[reader], [], []], ready.value
  end

  def pair = keep(*UNIXSocket.pair)
end

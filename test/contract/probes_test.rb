# frozen_string_literal: true

require_relative "../support/contract"

# What schedulers are known to get wrong, one probe each.
class ProbesTest < Contract
  contract "a socket that has data: wait_readable(0) is true" do
    reader, writer = keep(*UNIXSocket.pair)
    writer.write("x")
    assert(polled { reader.wait_readable(0) })
  end

  contract "wait_writable(0.2) on a full socket answers nil after 0.2 s" do
    _, writer = keep(*UNIXSocket.pair)
    nil while writer.write_nonblock("x" * 65_536, exception: false) != :wait_writable
    assert_nil(assert_takes(0.2) { writer.wait_writable(0.2) })
  end

  contract "a wait for both answers only the direction that is ready", ruby: ">= 3.2" do
    one, = keep(*UNIXSocket.pair)
    assert_equal 4, one.wait(IO::READABLE | IO::WRITABLE, 1)
  end

  # A collection of all that the tests before have left may take long, and is not the loop's.
  { false => Contract::GAP, true => nil }.each do |collect, gap|
    contract "a read after a timed-out read#{" and a collection" if collect}", gap: gap do
      client, server = Streams.tcp(self)
      assert_raises(Timeout::Error) { Timeout.timeout(0.02) { client.read(5) } }
      GC.start if collect
      server.write("hello")
      GC.start if collect
      assert_equal "hello", client.read(5)
    end
  end

  contract "close wakes the reader" do
    reader, = keep(*UNIXSocket.pair)
    waiting = parked { reader.read(1) }
    reader.close
    assert_kind_of IOError, waiting.failure
  end

  contract "an exception in one fiber leaves the others alone", only: :fibers do
    ran = []
    broken = strand { sleep(0.002) && raise("broken") }
    whole = strand { sleep(0.005) && ran << :whole }
    assert_equal "broken", broken.failure.message
    whole.value
    assert_equal [:whole], ran
  end

  contract "Fiber#raise on a sleeping fiber: the raiser goes on", only: :fibers do
    asleep = parked { sleep 5 }
    raiser = strand { asleep.target.raise("up") || :goes_on }
    raiser.join(20)
    assert raiser.ended?, "the raiser is stranded"
    assert_equal "up", asleep.failure.message
  end

  contract "Thread#join(0.05) comes back after 0.05 s" do
    thread = Thread.new { sleep }
    assert_nil(assert_takes(0.05, slack: 0.3) { thread.join(0.05) })
    thread.kill.join
  end

  contract "IO.select does not stop the others" do
    reader, = keep(*UNIXSocket.pair)
    assert_nil(assert_takes(0.1) { IO.select([reader], nil, nil, 0.1) })
  end

  contract "read_nonblock of a pipe does not wait" do
    reader, writer = keep(*IO.pipe)
    assert_equal :wait_readable, reader.read_nonblock(1, exception: false)
    writer.write("x")
    assert_equal "x", reader.read_nonblock(1)
  end

  contract "puts of an empty string" do
    reader, writer = keep(*IO.pipe)
    writer.puts("")
    assert_equal "\n", reader.readpartial(10)
  end

  contract "an exception into ConditionVariable#wait is not a ThreadError" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    waiting = parked { mutex.synchronize { condition.wait(mutex) } }
    waiting.interrupt(ArgumentError.new("mine"))
    assert_kind_of ArgumentError, waiting.failure
  end

  contract "Thread#value never answers before the thread has ended" do
    values = Array.new(20) { |i| strand { Thread.new { sleep(0.001 * (i % 5)) && i }.value } }
    assert_equal (0...20).to_a, values.map(&:value)
  end

  contract "one and the same fd in a read and a write wait, ended by a timeout" do
    one, = keep(*UNIXSocket.pair)
    nil while one.write_nonblock("x" * 65_536, exception: false) != :wait_writable
    waits = [parked { one.wait_readable(0.02) }, parked { one.wait_writable(0.02) }]
    assert_equal [nil, nil], waits.map(&:value)
  end

  # No gap: to start a child takes what it takes.
  contract "popen, backticks, a mutex, a condition and UDP beside each other", gap: nil do
    udp = keep(UDPSocket.new)
    udp.bind("127.0.0.1", 0)
    mutex = Mutex.new
    condition = ConditionVariable.new
    results = [
      parked { mutex.synchronize { condition.wait(mutex) } && :condition }, parked { udp.recv(9) },
      strand { IO.popen("sleep 0.01; echo popen", &:read) }, strand { `echo ticks` }
    ]
    keep(UDPSocket.new).send("udp", 0, "127.0.0.1", udp.addr[1])
    mutex.synchronize { condition.signal }
    assert_equal [:condition, "udp", "popen\n", "ticks\n"], results.map(&:value)
  end
end

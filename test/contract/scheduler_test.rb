# frozen_string_literal: true

require_relative "../support/contract"

# The hooks called as Ruby calls them, and what the scheduler tells about itself.
class SchedulerTest < Contract
  # Ruby warns once that IO::Buffer is experimental.
  Warning[:experimental] = false

  HOOKS = %i[io_wait kernel_sleep block unblock close fiber io_read io_write io_select process_wait
             address_resolve timeout_after run fiber_interrupt yield io_pread io_pwrite].freeze

  contract "every hook is there", only: :fibers do
    assert_empty HOOKS.reject { |hook| scheduler.respond_to?(hook) }
  end

  contract "a wait counts from its begin, though its fiber computes before", only: :fibers,
                                                                             gap: nil do
    began = nil
    waiting = Fiber.schedule do
      start = clock
      nil until clock - start > 0.1
      began = clock
      sleep(0.01)
    end
    waited = scheduler.waits.find { |wait| wait[:fiber] == waiting }.fetch(:waited)
    assert_operator waited, :<=, clock - began
    sleep(0.001) while waiting.alive?
  end

  contract "io_wait answers the ready events, or false", only: :fibers do
    reader, writer = keep(*UNIXSocket.pair)
    assert_equal false, scheduler.io_wait(reader, IO::READABLE, 0)
    assert_equal false, scheduler.io_wait(reader, IO::READABLE, 0.005)
    assert_equal IO::WRITABLE, scheduler.io_wait(reader, IO::READABLE | IO::WRITABLE, nil)
    writer.write("x")
    assert_equal IO::READABLE, scheduler.io_wait(reader, IO::READABLE, 0)
    assert_equal 5, scheduler.io_wait(reader, IO::READABLE | IO::WRITABLE, 1)
  end

  contract "block ends by unblock with true, by its time with false", only: :fibers do
    fiber = Fiber.current
    strand { sleep(0.003) && scheduler.unblock(:x, fiber) }
    assert_equal true, scheduler.block(:x, nil)
    assert_equal false, assert_takes(0.01) { scheduler.block(:x, 0.01) }
  end

  contract "unblock before block is not lost", only: :fibers do
    mine = scheduler
    queues = Array.new(50) { Queue.new }
    thread = Thread.new { queues.each { |queue| queue << 1 } }
    assert_equal 50, queues.sum(&:pop)
    thread.join
    assert_same mine, scheduler
  end

  contract "unblock before block counts once, for its blocker and its fiber", only: :fibers do
    fiber = Fiber.current
    2.times { scheduler.unblock(:x, fiber) }
    assert_equal false, assert_takes(0.01) { scheduler.block(:y, 0.01) }
    assert_equal(false, strand { scheduler.block(:x, 0.01) }.value)
    assert_equal true, scheduler.block(:x, 5)
    assert_equal false, assert_takes(0.01) { scheduler.block(:x, 0.01) }
  end

  contract "unblock of one that does not wait does no harm", only: :fibers do
    fiber = Fiber.current
    3.times { scheduler.unblock(:x, fiber) }
    assert_takes(0.02) { sleep 0.02 }
    reader, = keep(*UNIXSocket.pair)
    assert_nil(assert_takes(0.02) { reader.wait_readable(0.02) })
  end

  contract "unblock of a reader or sleeper does not end its wait wrongly", only: :fibers do
    reader, writer = keep(*UNIXSocket.pair)
    reading = strand { reader.read(1) }
    waiting = strand { reader.wait_readable(5) && :ready }
    3.times { scheduler.unblock(:x, reading.target) || scheduler.unblock(:x, waiting.target) }
    sleep 0.005
    refute reading.ended?
    refute waiting.ended?
    writer.write("x")
    assert_equal :ready, waiting.value
    assert_equal "x", reading.value
  end

  contract "unblock from another thread, many times", only: :fibers, gap: 0.150 do
    mine = scheduler
    fibers = []
    woken = 0
    strands = Array.new(20) { strand { fibers << Fiber.current and 50.times {
 mine.block(:x, 5) && woken += 1 } } }
    stop = false
    thread = Thread.new { fibers.each { |fiber|
 mine.unblock(:x, fiber) && Thread.pass } until stop }
    strands.each { |one| assert one.join(10) }
    stop = true
    thread.join
    assert_equal 1000, woken
  end

  contract "io_read and io_write of a length wait until it is done", only: :fibers,
ruby: ">= 3.2" do
    reader, writer = keep(*UNIXSocket.pair)
    buffer = IO::Buffer.new(8)
    reading = parked { scheduler.io_read(reader, buffer, 4, 0) }
    writer.write("ab")
    sleep 0.003
    refute reading.ended?
    writer.write("cd")
    assert_equal [4, "abcd"], [reading.value, buffer.get_string(0, 4)]
  end

  # "Try reading at least once": read_nonblock of a pipe comes this way and must not wait.
  contract "io_read and io_write of length zero try once", only: :fibers, ruby: ">= 3.2" do
    reader, writer = keep(*IO.pipe)
    buffer = IO::Buffer.new(8)
    assert_equal(-Errno::EAGAIN::Errno, scheduler.io_read(reader, buffer, 0, 0))
    writer.write("abc")
    assert_equal 3, scheduler.io_read(reader, buffer, 0, 2)
    assert_equal "abc", buffer.get_string(2, 3)
    assert_equal 8, scheduler.io_write(writer, buffer, 0, 0)
    writer.close
    reader.sysread(8)
    assert_equal 0, scheduler.io_read(reader, buffer, 0, 0)
    assert_equal 0, scheduler.io_read(reader, buffer, 4, 0)
  end

  # A socket's read_nonblock does not come this way: here the hook may wait, and saves a call.
  contract "io_read of length zero from a socket gives what comes", only: :fibers, ruby: ">= 3.2" do
    reader, writer = keep(*UNIXSocket.pair)
    buffer = IO::Buffer.new(8)
    reading = parked { scheduler.io_read(reader, buffer, 0, 0) }
    writer.write("abc")
    assert_includes [3, -Errno::EAGAIN::Errno], reading.value
  end

  contract "IO::Buffer reads, writes, preads and pwrites", only: :fibers, ruby: ">= 3.3" do
    reader, writer = keep(*IO.pipe)
    buffer = IO::Buffer.for("hello")
    assert_equal 5, buffer.write(writer, 5)
    into = IO::Buffer.new(5)
    assert_equal 5, into.read(reader, 5)
    assert_equal "hello", into.get_string
    Tempfile.create("nb") do |file|
      assert_equal 5, buffer.pwrite(file, 3, 5)
      assert_equal 5, into.clear.pread(file, 3, 5)
      assert_equal "hello", into.get_string
    end
  end

  # Of a larger buffer, Ruby fills, or writes, all that it can: the length is the least.
  same_as_threads "IO::Buffer preads and pwrites more than a length", ruby: ">= 3.3" do
    Tempfile.create("nb") do |file|
      File.binwrite(file.path, "0123456789")
      buffer = IO::Buffer.new(8)
      [buffer.pread(file, 1, 3), buffer.get_string, buffer.pread(file, 0, 3, 4), buffer.get_string,
       buffer.pread(file, 8, 5), buffer.get_string, buffer.pread(file, 10, 1),
       buffer.pwrite(file, 1, 2), File.binread(file.path), buffer.pwrite(file, 9, 1, 6),
       File.binread(file.path)]
    end
  end

  same_as_threads "IO::Buffer of Ruby 3.1 preads more than a length", ruby: "< 3.2" do
    Tempfile.create("nb") do |file|
      File.binwrite(file.path, "0123456789")
      buffer = IO::Buffer.new(8)
      [buffer.pread(file, 3, 1), buffer.get_string, buffer.pread(file, 3, 8), buffer.get_string]
    end
  end

  same_as_threads "IO::Buffer refuses what goes beyond its size" do
    Tempfile.create("nb") do |file|
      buffer = IO::Buffer.new(8)
      place = RUBY_VERSION < "3.2" ? [9, 0] : [0, 9]
      [[:read, 9], [:write, 9], [:pread, *place], [:pwrite, *place]].map do |name, *numbers|
        buffer.public_send(name, file, *numbers)
      rescue ArgumentError => error
        error.message
      end
    end
  end

  contract "IO::Buffer of Ruby 3.1 writes and reads at a position", ruby: "< 3.2" do
    Tempfile.create("nb") do |file|
      buffer = IO::Buffer.new(8)
      buffer.set_string("hello")
      assert_equal 5, buffer.pwrite(file, 5, 6)
      assert_equal [0, "\0" * 6 << "hello"], [file.pos, File.binread(file.path)]
      into = IO::Buffer.new(5)
      assert_equal 5, into.pread(file, 5, 6)
      assert_equal "hello", into.get_string
    end
  end

  contract "errors of io_read and io_write are -errno", only: :fibers, ruby: ">= 3.2" do
    reader, writer = keep(*IO.pipe)
    buffer = IO::Buffer.new(8)
    assert_equal(-Errno::EBADF::Errno, scheduler.io_read(writer, buffer, 0, 0))
    reader.close
    assert_equal(-Errno::EPIPE::Errno, scheduler.io_write(writer, buffer, 0, 0))
  end

  contract "yield lets the others run first", only: :fibers do
    order = []
    one = strand do
      order << 1
      scheduler.yield
      order << 3
    end
    order << 2
    scheduler.yield
    one.join
    assert_equal [1, 2, 3], order
  end

  contract "timeout_after with a class, a message, an instance", only: :fibers do
    error = assert_raises(IOError) { scheduler.timeout_after(0.005, IOError, "late") { sleep } }
    assert_equal "late", error.message
    assert_equal :value, scheduler.timeout_after(1, IOError, "late") { :value }
    given = ArgumentError.new("given")
    assert_same given, assert_raises(ArgumentError) { scheduler.timeout_after(0.005, given) {
 sleep } }
  end

  contract "address_resolve answers addresses", only: :fibers do
    assert_includes scheduler.address_resolve("localhost"), "127.0.0.1"
    assert_equal ["127.0.0.1"], scheduler.address_resolve("127.0.0.1").uniq
  end

  contract "process_wait answers a status", only: :fibers, gap: nil do
    pid = spawn("exit 5")
    status = scheduler.process_wait(pid, 0)
    assert_kind_of Process::Status, status
    assert_equal [pid, 5], [status.pid, status.exitstatus]
  end

  contract "io_select answers three lists or nil", only: :fibers do
    reader, writer = keep(*UNIXSocket.pair)
    assert_nil scheduler.io_select([reader], [], [], 0)
    assert_equal [[], [writer], []], scheduler.io_select([reader], [writer], [], nil)
  end

  contract "the scheduler tells who waits for what", only: :fibers do
    reader, = keep(*UNIXSocket.pair)
    strands = [parked { reader.read(1) }, parked { sleep 5 }, parked { Queue.new.pop }]
    waits = scheduler.waits
    assert_kind_of Array, waits
    strands.each { |one| assert(waits.any? { |wait|
 wait.value?(one.target) }, "a wait is missing") }
    assert_operator scheduler.stats[:fibers], :>=, 4
    strands.each { |one| one.interrupt(Interrupt.new) || one.failure }
  end

  contract "its stats count up, and cost no wait", only: :fibers do
    before = scheduler.stats
    sleep 0.002
    after = scheduler.stats
    assert(before.keys.any? { |key| before[key].is_a?(Integer) && after[key] > before[key] })
  end

  contract "an idle loop does not spin", only: :fibers, gap: nil do
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    reader, = keep(*UNIXSocket.pair)
    assert_nil reader.wait_readable(0.3)
    used = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before
    assert_operator used, :<, 0.1, "CPU seconds in 0.3 s of waiting"
  end

  contract "several loops in several threads, talking", gap: 0.100 do
    queues = Array.new(3) { Queue.new }
    threads = queues.each_with_index.map do |queue, i|
      Thread.new do
        world.enter { 50.times { |n| sleep(0.0005) && queues[(i + 1) % 3] << n } && 50.times {
 queue.pop } }
      end
    end
    threads.each { |thread| assert thread.join(8) }
    assert(queues.all?(&:empty?))
  end
end

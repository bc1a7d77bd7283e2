# frozen_string_literal: true

require_relative "../support/contract"

# Closing an IO that a thread uses, which is no fiber of the loop: it gets an IOError, and goes on.
class DriveOutTest < Contract
  # Made here: while a thread makes it, and has no CPU, nor has the loop the GVL.
  MUCH = ("x" * 5_000_000).freeze
  USES = {
    "a read" => ->(io) { io.read(1) }, "a gets" => ->(io) { io.gets },
    "a recv" => ->(io) { io.recv(1) }, "a wait" => ->(io) { io.wait_readable },
    "a wait with a timeout" => ->(io) { io.wait(60) },
    "a write" => ->(io) { io.write(MUCH) }
  }.freeze

  USES.each do |name, use|
    same_as_threads "close during #{name} of a thread that then wants the closer's lock" do
      socket, = keep(*UNIXSocket.pair)
      lock = Thread::Mutex.new
      thread = using { outcome { use.call(socket) }.tap { lock.synchronize { nil } } }
      closed = lock.synchronize { socket.close }
      [closed, socket.closed?, thread.value]
    end
  end

  same_as_threads "close during an accept of a thread that goes on" do
    server = keep(TCPServer.new("127.0.0.1", 0))
    going_on = Thread::Queue.new
    thread = using { outcome { server.accept }.tap { going_on.pop } }
    server.close
    going_on.close
    thread.value
  end

  same_as_threads "close during a read of several threads that go on" do
    reader, = keep(*IO.pipe)
    going_on = Thread::Queue.new
    threads = Array.new(3) { using { outcome { reader.read(1) }.tap { going_on.pop } } }
    reader.close
    going_on.close
    threads.map(&:value)
  end

  contract "many closes at once beside a reading thread take few threads", only: :fibers,
                                                                         gap: nil do
    reader, writer = keep(*IO.pipe)
    thread = using { reader.read(1) }
    sockets = keep(*Array.new(200) { UNIXSocket.pair }.flatten)
    sockets.map { |one| strand { one.close } }.each(&:value)
    assert_operator NB::Offload.default.stats[:threads], :<, 100
    writer.write("x")
    thread.join
  end

  # Closing needs a thread, too.
  contract "close while offloaded reads have all threads, and more wait for one", only: :fibers,
                                                                                gap: nil do
    reads = Array.new(NB::Offload.default.size * 2) do
      reader, = keep(*IO.pipe)
      [reader, strand { NB.offload { outcome { reader.read(1) } } }]
    end
    sleep 0.001 until all_offload?
    reads.each { |reader, _| reader.close }
    assert_equal [IOError], reads.map { |_, read| read.value.first }.uniq
  end

  same_as_threads "close by a blocking fiber during a read of a thread that goes on", gap: nil do
    reader, = keep(*IO.pipe)
    going_on = Thread::Queue.new
    thread = using { outcome { reader.read(1) }.tap { going_on.pop } }
    Fiber.new(blocking: true) { reader.close }.resume
    going_on.close
    thread.value
  end

  same_as_threads "reopen during a read of a thread that goes on" do
    reader, = keep(*IO.pipe)
    other, writer = keep(*IO.pipe)
    going_on = Thread::Queue.new
    thread = using { outcome { reader.read(1) }.tap { going_on.pop } }
    same = reader.reopen(other).equal?(reader)
    going_on.close
    writer.write("x")
    [same, thread.value, reader.read(1)]
  end

  # What a fiber begins to wait for while another one closes it.
  contract "a read that begins while another fiber closes, beside a reading thread",
           gap: nil, only: :fibers do
    other, writer = keep(*IO.pipe)
    thread = using { other.read(1) }
    [UNIXSocket.pair, IO.pipe].each do |reader, peer|
      gate = Thread::Queue.new
      before, closing, after = [false, true, false].map do |closes|
        strand { gate.pop || (closes ? reader.close : outcome { reader.read(1) }) }
      end
      gate.close
      assert_equal [IOError, nil, IOError], [before.value.first, closing.value, after.value.first]
      peer.close
    end
    writer.write("x")
    thread.join
  end

  # A library that owns the fd has closed it, and closes the IO around it: if others ran before
  # that, the number could be theirs.
  contract "the close of an IO that does not own its fd lets nobody have the number meanwhile",
           only: :fibers do
    other, = keep(*IO.pipe)
    using { other.read(1) }
    reader, = keep(*IO.pipe)
    around = keep(IO.for_fd(reader.fileno, autoclose: false))
    turns = 0
    busy = strand { 1_000.times { (turns += 1) && sleep(0) } }
    closing = strand do
      before = turns
      around.close
      turns - before
    end
    assert_equal 0, closing.value
    busy.value
  end

  contract "a wait that begins while a close writes what was left", gap: nil, only: :fibers do
    peer, socket = keep(*UNIXSocket.pair)
    keep(socket.dup) # so that its peer notices no close
    socket.sync = false
    nil while socket.write_nonblock("x" * 8_000, exception: false) != :wait_writable
    socket.write("end")
    closing = strand { socket.close }
    reading = strand { outcome { socket.wait_readable } }
    nil until peer.readpartial(65_536).end_with?("end")
    closing.value
    assert_equal IOError, reading.value.first
  end

  same_as_threads "close of a child's pipe during a read of a thread sets $?", gap: nil do
    child = IO.popen("cat; exit 3", "r+")
    going_on = Thread::Queue.new
    thread = using { outcome { child.read(1) }.tap { going_on.pop } }
    child.close
    going_on.close
    [thread.value, $?.exitstatus]
  end

  same_as_threads "the end of popen's block during a read of a thread that goes on", gap: nil do
    going_on = Thread::Queue.new
    thread = nil
    value = IO.popen("cat", "r+") do |child|
      thread = using { outcome { child.read(1) }.tap { going_on.pop } }
      :value
    end
    going_on.close
    [value, thread.value, $?.exitstatus]
  end

  # A trap handler can hand over nothing to another thread.
  def test_a_trap_handler_closes_one_pipe_while_a_thread_reads_from_another
    script = <<~RUBY
      NB.run do
        (pipe, _), (other, writer) = IO.pipe, IO.pipe
        reading = Thread.new { other.read(1) }
        Thread.pass until reading.stop?
        closed = Queue.new
        trap(:USR2) { closed << (pipe.close rescue $!) }
        Process.kill(:USR2, Process.pid)
        print [closed.pop, pipe.closed?]
        writer << "x"
        reading.join
      end
    RUBY
    assert_equal "[nil, true]", Subprocess.ruby(script).out
  end

  contract "threads that wait for no IO are none of its users", only: :fibers, ruby: "< 4" do
    reader, writer = keep(*IO.pipe)
    waits = [-> { sleep }, -> { Thread::Queue.new.pop }, -> { Thread.stop },
             -> { select([reader]) }]
    idle = waits.map { |wait| using(&wait) }
    refute NB::IOUsers.there?(reader)
    reading = using { reader.read(1) }
    assert_equal RUBY_VERSION >= "3.2", NB::IOUsers.there?(reader)
    writer.write("x")
    reading.join
  ensure
    idle.each(&:kill).each(&:join)
  end

  private

  # @return [Boolean] whether all threads of the pool wait inside their work, and more work waits
  def all_offload?
    threads = Thread.list.select { |thread| thread.name == NB::Offload::NAME }
    NB::Offload.default.stats[:queued].positive? && threads.all?(&:stop?)
  end

  # A thread that runs the block and waits in it.
  def using(&block)
    started = Thread::Queue.new
    thread = Thread.new do
      started << true
      block.call
    end
    started.pop
    Thread.pass until thread.stop?
    thread
  end
end

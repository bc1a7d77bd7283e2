# frozen_string_literal: true

require_relative "../support/contract"

# An exception raised into every kind of wait arrives there as itself, the ensure blocks run,
# nothing of the wait is left, and what was waited for can be waited for again.
class InterruptTest < Contract
  class Stop < Exception; end # rubocop:disable Lint/InheritException

  WAITS = {
    "sleep" => ->(_) { sleep }, "sleep of a time" => ->(_) { sleep 5 },
    "a read" => ->(t) { t.socket.read(1) }, "a gets" => ->(t) { t.socket.gets },
    "a readpartial" => ->(t) { t.socket.readpartial(1) }, "a recv" => ->(t) { t.socket.recv(1) },
    "a pipe's read" => ->(t) { t.keep(*IO.pipe).first.read(1) },
    "a write" => ->(t) { t.socket.write("x" * 5_000_000) },
    "wait_readable" => ->(t) { t.socket.wait_readable },
    "wait_readable of a time" => ->(t) { t.socket.wait_readable(5) },
    "an accept" => ->(t) { t.keep(TCPServer.new("127.0.0.1", 0)).accept },
    "IO.select" => ->(t) { IO.select([t.socket, t.socket], nil, nil, 5) },
    "IO.select without lists" => ->(_) { IO.select(nil, nil, nil, 5) },
    "a queue" => ->(_) { Queue.new.pop }, "a full queue" => ->(_) { SizedQueue.new(1).tap { |q|
 q << 1 } << 2 },
    "a condition" => ->(_) { Mutex.new.tap { |m| m.synchronize {
 ConditionVariable.new.wait(m) } } },
    "a condition of a time" => ->(_) { Mutex.new.tap { |m| m.synchronize {
 ConditionVariable.new.wait(m, 5) } } },
    "Mutex#sleep" => ->(_) { Mutex.new.tap { |m| m.synchronize { m.sleep } } },
    "a child's end" => ->(t) { Process.wait(t.child) },
    "a thread's end" => ->(t) { t.thread.join }, "a thread's value" => ->(t) { t.thread.value },
    "a thread's end, of a time" => ->(t) { t.thread.join(5) },
    "a TLS handshake" => ->(t) { Certificates.client(t.socket).connect },
    "a copy" => ->(t) { IO.copy_stream(t.socket, File::NULL) },
    "a timeout" => ->(_) { Timeout.timeout(5) { sleep } }
  }.freeze

  WAITS.each do |name, wait|
    contract "into #{name}", gap: (0.060 unless name == "a child's end") do
      ensured = false
      waiting = parked do
        wait.call(self)
      ensure
        ensured = true
      end
      refute waiting.ended?, "it does not wait"
      waiting.interrupt(Stop.new("stop"))
      error = waiting.failure
      assert_equal [Stop, "stop", true], [error.class, error.message, ensured]
      release
    end
  end

  contract "the backtrace shows the place of the wait" do
    waiting = parked { place_of_waiting }
    waiting.interrupt(Stop.new("stop"))
    assert_match(/place_of_waiting/, waiting.failure.backtrace.join("\n"))
  end

  contract "an ensure block may wait itself" do
    order = []
    waiting = parked do
      sleep
    ensure
      sleep 0.005
      order << :cleaned
    end
    waiting.interrupt(Stop.new)
    waiting.failure
    assert_equal [:cleaned], order
  end

  contract "a rescued interrupt lets the strand wait again" do
    reader, writer = keep(*UNIXSocket.pair)
    rescued = false
    waiting = parked do
      reader.read(1)
    rescue Stop
      rescued = true
      reader.read(1)
    end
    waiting.interrupt(Stop.new)
    sleep 0.001 until rescued # else the first read could have the byte, and a thread's loses it
    refute waiting.ended?
    writer.write("x")
    assert_equal "x", waiting.value
  end

  # The first ends the wait, the others are kept for the next ones.
  contract "several interrupts at once: all are raised, in order", only: :fibers do
    seen = []
    waiting = parked do
      4.times do
        sleep
      rescue Stop => error
        seen << error.message
      end
      :end
    end
    %w[one two three four].each { |message| waiting.interrupt(Stop.new(message)) }
    assert_equal :end, waiting.value
    assert_equal %w[one two three four], seen
  end

  contract "one interrupts itself in its next wait, not at once", only: :fibers do
    order = []
    one = strand do
      sleep 0
      scheduler.fiber_interrupt(Fiber.current, Stop.new("self"))
      order << :goes_on
      sleep 5
      order << :never
    end
    assert_equal "self", one.failure.message
    assert_equal [:goes_on], order
  end

  contract "an interrupt of one that is ready comes in its next wait or this one", only: :fibers do
    reader, writer = keep(*UNIXSocket.pair)
    waiting = parked { reader.read(1) && sleep(5) }
    writer.write("x")
    waiting.interrupt(Stop.new("stop"))
    assert_equal "stop", waiting.failure.message
  end

  contract "fiber_interrupt never runs the fiber at once", only: :fibers do
    order = []
    waiting = parked do
      sleep
    ensure
      order << :interrupted
    end
    waiting.interrupt(Stop.new)
    order << :raiser
    waiting.failure
    assert_equal %i[raiser interrupted], order
  end

  contract "fiber_interrupt from another thread", only: :fibers do
    mine = scheduler
    waiting = Array.new(20) { parked { sleep } }
    thread = Thread.new { waiting.each { |one| mine.fiber_interrupt(one.target, Stop.new("far")) } }
    assert_equal ["far"], waiting.map { |one| one.failure.message }.uniq
    thread.join
  end

  # As Ruby 4.1 has for a fiber that waits in an I/O operation. Its raise is Ruby's own.
  Operation = Struct.new(:fiber, :active) do
    def alive? = active && fiber.alive?

    def raise(exception)
      repaired = Fiber.private_instance_methods.grep(/\Araise_without_neverblock/).first
      fiber.__send__(repaired || :raise, exception)
    end
  end

  contract "fiber_interrupt of an operation that goes on, and of one that has ended",
           only: :fibers do
    mine = scheduler
    waiting = Array.new(6) { parked { sleep } }
    targets = waiting.map { |one| Operation.new(one.target, true) }
    targets[2].active = targets[5].active = false
    targets.first(3).each { |target| mine.fiber_interrupt(target, Stop.new("near")) }
    GC.start
    far = targets.last(3)
    thread = Thread.new { far.each { |one| mine.fiber_interrupt(one, Stop.new("far")) } }
    ended = waiting.values_at(0, 1, 3, 4)
    assert_equal %w[near near far far], ended.map { |one| one.failure.message }
    thread.join
    sleep 0.002
    waiting.values_at(2, 5).each do |left|
      assert_predicate left, :parked?
      left.interrupt(Stop.new("left"))
      assert_equal "left", left.failure.message
    end
  end

  contract "an interrupt of a fiber that has ended does no harm", only: :fibers do
    ended = strand { :done }
    outcome { ended.interrupt(Stop.new) }
    assert_equal :done, ended.value
    sleep 0.005
  end

  contract "Fiber#raise into a wait: the raiser goes on", only: :fibers do
    order = []
    waiting = parked do
      sleep
    rescue Stop => error
      order << error.message
    end
    raiser = strand do
      waiting.target.raise(Stop, "raised")
      order << :raiser_goes_on
    end
    assert raiser.join(20), "the raiser is stranded"
    waiting.value
    assert_equal ["raised", :raiser_goes_on], order.sort_by(&:to_s)
  end

  contract "Fiber#raise with class, message and backtrace", only: :fibers do
    waiting = parked { sleep }
    strand { waiting.target.raise(ArgumentError, "text", ["somewhere:1"]) }.join
    error = waiting.failure
    assert_equal [ArgumentError, "text"], [error.class, error.message]
  end

  contract "Fiber#raise into a read, then the data still comes", only: :fibers do
    reader, writer = keep(*UNIXSocket.pair)
    waiting = parked { reader.read(5) }
    strand { waiting.target.raise(Stop, "stop") }.join
    assert_equal "stop", waiting.failure.message
    writer.write("hello")
    assert_equal "hello", reader.read(5)
  end

  contract "Fiber#kill runs ensure, the killer goes on", only: :fibers, ruby: ">= 3.3" do
    order = []
    waiting = Fiber.schedule do
      sleep
    ensure
      order << :ensured
    end
    killer = strand { waiting.kill && order << :killer_goes_on }
    assert killer.join(20), "the killer is stranded"
    sleep 0.005
    refute_predicate waiting, :alive?
    assert_equal %i[ensured killer_goes_on], order.sort
  end

  # Ruby raises in the fiber that it has resumed: before 3.3 it refuses.
  { raise: ["stop"], kill: [] }.each do |name, arguments|
    contract "Fiber##{name} in an Enumerator's fiber", only: :fibers, ruby: ">= 3.3" do
      order = []
      waiting = Fiber.schedule do
        Enumerator.new { |line| line << sleep }.next
      rescue RuntimeError => error
        order << error.message
      ensure
        order << :ensured
      end
      sleep 0.005
      caller = strand do
        waiting.public_send(name, *arguments)
        order << :caller_goes_on
      end
      assert caller.join(20), "the caller is stranded"
      refute_predicate waiting, :alive?
      assert_equal [*arguments, :ensured, :caller_goes_on], order
    end
  end

  WAITS.slice("a read", "a queue", "IO.select", "a child's end").each do |name, wait|
    gap = 0.060 unless name == "a child's end" # to start one takes what it takes
    contract "Fiber#kill in #{name} leaves nothing", only: :fibers, ruby: ">= 3.3", gap: gap do
      waiting = Fiber.schedule { wait.call(self) }
      sleep 0.005
      strand { waiting.kill }.join
      sleep 0.005
      refute_predicate waiting, :alive?
      release
    end
  end

  contract "Thread#raise ends the waits of a thread beside" do
    gate = Queue.new
    thread = Thread.new { gate.pop }
    thread.report_on_exception = false
    sleep 0.001 until thread.status == "sleep"
    thread.raise(Stop, "thread")
    assert_equal "thread", assert_raises(Stop) { thread.join }.message
  end

  # Ruby flags only the first of them.
  contract "several Thread#raise that come while a strand computes all arrive",
           only: :fibers, gap: nil do
    begun, seen = Array.new(2) { Queue.new }
    backend = scheduler.stats[:backend].to_sym
    thread = Thread.new do
      NB.run(backend: backend) do
        NB.async { note(seen) { (begun << sleep(0)) && loop { nil } } && sleep }
        loop { note(seen) { Queue.new.pop } }
      end
    end
    begun.pop
    %w[one two three].each { |message| thread.raise(Stop, message) }
    assert_equal %w[one three two], Array.new(3) { Timeout.timeout(60) { seen.pop } }.sort
    thread.kill.join
  end

  contract "several Thread#raise of a thread that has ended all arrive", only: :fibers, gap: nil do
    result = Subprocess.ruby(<<~'RUBY', env: { "NB_BACKEND" => scheduler.stats[:backend] })
      begun, seen, main = false, [], Thread.current
      reader, writer = IO.pipe # so the loop does not call it a deadlock
      raising = Thread.new do
        Thread.pass until begun
        %w[one two three].each { |message| main.raise(message) }
      end
      NB.run do
        NB.async do
          sleep 0
          begun = true
          loop { nil }
        rescue => error
          seen << error.message
          nil while raising.alive?
          reader.read
        end
        until seen.size == 3
          begin
            reader.wait_readable
          rescue => error
            seen << error.message
          end
        end
        writer.close
      end
      p seen.sort
    RUBY
    assert_equal [%(["one", "three", "two"]\n), "", false], [result.out, result.err, result.hung]
  end

  def note(seen)
    yield
  rescue Stop => error
    seen << error.message
  end

  def socket = keep(*UNIXSocket.pair).first
  def child = @child = spawn("sleep 10")
  def thread = @thread = Thread.new { sleep }
  def place_of_waiting = sleep

  def release
    @thread&.kill&.join
    return unless @child

    Process.kill(:KILL, @child)
    Process.wait(@child)
    @child = nil
  end
end

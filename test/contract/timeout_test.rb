# frozen_string_literal: true

require_relative "../support/contract"

# Timeout.timeout: around every kind of wait, nested both ways, and never seen by `rescue`.
class TimeoutContractTest < Contract
  class Special < StandardError; end
  class Grave < Exception; end # rubocop:disable Lint/InheritException

  contract "gives the value in time" do
    assert_equal :value, Timeout.timeout(1) { sleep(0.005) && :value }
    assert_equal 0.5, Timeout.timeout(0.5) { |seconds| seconds }
  end

  # So Timeout.timeout calls it from timeout 0.3 on (Ruby 3.2) until it passes its own exception.
  if Timeout.const_defined?(:ExitException)
    contract "a rescue of everything sees Timeout's own exception", only: :fibers do
      seen = nil
      assert_raises(Timeout::Error) do
        scheduler.timeout_after(0.01, Timeout::Error, "execution expired") do
          sleep
        rescue Exception => seen # rubocop:disable Lint/RescueException
          raise
        end
      end
      assert_instance_of Timeout::ExitException, seen
    end
  end

  contract "raises Timeout::Error, never early" do
    error = assert_takes(0.03) { assert_raises(Timeout::Error) { Timeout.timeout(0.03) { sleep } } }
    assert_equal "execution expired", error.message
  end

  WAITS = {
    "sleep" => ->(_) { sleep }, "a read" => ->(t) { t.keep(*UNIXSocket.pair).first.read(1) },
    "a pipe" => ->(t) { t.keep(*IO.pipe).first.gets },
    "a write" => ->(t) { t.keep(*UNIXSocket.pair).first.write("x" * 5_000_000) },
    "an accept" => ->(t) { t.keep(TCPServer.new("127.0.0.1", 0)).accept },
    "wait_readable" => ->(t) { t.keep(*UNIXSocket.pair).first.wait_readable },
    "recv" => ->(t) { t.keep(*UNIXSocket.pair).first.recv(1) },
    "IO.select" => ->(t) { IO.select([t.keep(*UNIXSocket.pair).first]) },
    "a queue" => ->(_) {
 Queue.new.pop }, "a sized queue" => ->(_) { 2.times { SizedQueue.new(1).tap { |q|
 q << 1 } << 2 } },
    "a mutex" => ->(t) { t.taken_mutex.lock },
    "a condition" => ->(_) { Mutex.new.tap { |m| m.synchronize {
 ConditionVariable.new.wait(m) } } },
    "a TLS handshake" => ->(t) { Certificates.client(t.keep(*UNIXSocket.pair).first).connect }
  }.freeze

  WAITS.each do |name, wait|
    contract "ends #{name}" do
      taken_mutex if name == "a mutex" # before the clock runs
      assert_takes(0.02) { assert_raises(Timeout::Error) { Timeout.timeout(0.02) { wait.call(self) } } }
      release_mutex
    end
  end

  contract "ends a join, and the thread goes on" do
    gate = Queue.new
    thread = Thread.new { gate.pop }
    assert_raises(Timeout::Error) { Timeout.timeout(0.01) { thread.join } }
    gate << 1
    thread.join
  end

  [IOError, Exception].each do |masked|
    contract "ends a block that computes while another masks #{masked}", gap: nil do
      gate = Queue.new
      masking = strand { Thread.handle_interrupt(masked => :never) { gate.pop } }
      start = clock
      [Timeout::Error, IOError].each do |error|
        limits = error == IOError ? [0.02, error] : [0.02]
        assert_raises(error) { Timeout.timeout(*limits) { nil while clock - start < 5 } }
      end
      gate << 1
      assert_equal 1, masking.value
    end
  end

  # No line and no block of Ruby's in it.
  contract "ends calls in one line while another masks", only: :fibers, gap: nil do
    gate = Queue.new
    masking = strand { Thread.handle_interrupt(IOError => :never) { gate.pop } }
    assert_raises(Timeout::Error) { Timeout.timeout(0.02) { (1..100_000_000).each(&:hash) } }
    gate << 1
    assert_equal 1, masking.value
  end

  # Threads are struck where something returns or jumps back: not at the first line of an `ensure`.
  contract "an ensure that follows calls in C begins, while another masks", gap: nil do
    gate = Queue.new
    masking = strand { Thread.handle_interrupt(IOError => :never) { gate.pop } }
    numbers = Array.new(2_000_000) { |i| (i * 7919) % 1_000_003 }
    started = ended = false
    compute = lambda do
      started = true
      numbers.sort # longer than a thread's turn
    ensure
      ended = true
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.01) { compute.call && spin_for(5) } }
    assert_equal started, ended
    gate << 1
    assert_equal 1, masking.value
  end

  def spin_for(seconds, start = clock)
    nil while clock - start < seconds
  end

  contract "nested: the inner one first" do
    order = []
    assert_equal :outer, (Timeout.timeout(5) do
      assert_raises(Timeout::Error) { Timeout.timeout(0.02) { sleep } }
      order << :inner
      :outer
    end)
    assert_equal [:inner], order
  end

  contract "nested: the outer one first passes through the inner" do
    seen = []
    assert_takes(0.02) do
      assert_raises(Timeout::Error) do
        Timeout.timeout(0.02) do
          Timeout.timeout(5) { sleep }
        ensure
          seen << :ensured
        end
      end
    end
    assert_equal [:ensured], seen
  end

  contract "nested with the classes of each" do
    assert_raises(Special) { Timeout.timeout(0.02, Special) { Timeout.timeout(5, IOError) {
 sleep } } }
    assert_raises(IOError) { Timeout.timeout(5, Special) { Timeout.timeout(0.02, IOError) {
 sleep } } }
  end

  contract "with a class, a message, and an Exception" do
    error = assert_raises(Special) { Timeout.timeout(0.01, Special) { sleep } }
    assert_equal "execution expired", error.message
    error = assert_raises(Special) { Timeout.timeout(0.01, Special, "too slow") { sleep } }
    assert_equal "too slow", error.message
    assert_raises(Grave) { Timeout.timeout(0.01, Grave) { sleep } }
  end

  # The cause of Timeout::Error is what Timeout has raised in the block, where it shows that.
  same_as_threads "the cause of a timeout's error" do
    raise "before"
  rescue RuntimeError
    [nil, ArgumentError].map do |own|
      Timeout.timeout(0.01, *own) { sleep }
    rescue Timeout::Error, ArgumentError => error
      [error.class, error.cause.class, error.cause&.cause.class]
    end
  end

  contract "a plain timeout passes `rescue => e` inside the block" do
    swallowed = false
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.02) do
        sleep
      rescue StandardError
        swallowed = true
      end
    end
    refute swallowed
  end

  contract "a plain timeout passes `rescue Timeout::Error` inside the block" do
    swallowed = false
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.02) do
        sleep
      rescue Timeout::Error
        swallowed = true
      end
    end
    refute swallowed
  end

  contract "an inner `rescue Timeout::Error` does not take the outer's for its own" do
    taken = false
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.02) do
        begin
          Timeout.timeout(5) { sleep }
        rescue Timeout::Error
          taken = true
        end
        sleep 0.05
      end
    end
    refute taken
  end

  contract "a timeout with a class can be rescued inside" do
    assert_equal :rescued, (Timeout.timeout(0.05, Special) do
      sleep
    rescue Special
      :rescued
    end)
  end

  contract "Timeout::Error, where it is given, can be rescued inside, too" do
    assert_equal "execution expired", (Timeout.timeout(0.05, Timeout::Error) do
      sleep
    rescue Timeout::Error => error
      error.message
    end)
    seen = Class.new { include Timeout }.new.instance_eval do
      timeout(0.05, Timeout::Error, "late") { sleep }
    rescue Timeout::Error => error
      [error.class, error.message]
    end
    assert_equal [Timeout::Error, "late"], seen
  end

  # The gem's versions differ: here is the one that this Ruby brings.
  def test_a_given_class_without_a_gem_of_timeout
    script = <<~RUBY
      NB.run do
        p(Timeout.timeout(0.02, Timeout::Error) { (sleep rescue :rescued) })
        p(Class.new { include Timeout }.new.instance_eval { timeout(0.02, KeyError) { sleep } rescue 1 })
        p(Timeout.timeout(0.02) { (sleep rescue :rescued) })
      rescue Timeout::Error => error
        p error.message
      end
    RUBY
    result = Subprocess.ruby(script, options: ["--disable-gems"])
    assert_equal ":rescued\n1\n\"execution expired\"\n", result.out, result.err
  end

  same_as_threads "what an exception, or an object that makes one, becomes" do
    maker = Class.new { def self.exception(message = nil) = IndexError.new("made: #{message}") }
    [[KeyError.new("own")], [KeyError.new("own"), "given"], [maker], [maker, "given"]].map do |what|
      Timeout.timeout(0.01, *what) { sleep }
    rescue KeyError, IndexError => error
      [error.class, error.message]
    end
  end

  contract "ensure blocks run, and may wait" do
    order = []
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.05) do
        sleep
      ensure
        sleep 0.005
        order << :ensured
      end
    end
    assert_equal [:ensured], order
  end

  contract "a limit that no clock can count never strikes", only: :fibers, gap: nil do
    [Float::INFINITY, Float::NAN, 1e30, 2**70, 1e19].each do |seconds|
      assert_equal seconds.to_s, (Timeout.timeout(seconds) { |given| sleep(0.001) && given.to_s })
    end
  end

  contract "nil and zero mean no timeout" do
    assert_equal :value, Timeout.timeout(nil) { sleep(0.005) && :value }
    assert_equal :value, Timeout.timeout(0) { sleep(0.005) && :value }
  end

  same_as_threads "wrong arguments" do
    [outcome { Timeout.timeout(-1) { sleep 5 } }, outcome { Timeout.timeout("1") {
 sleep 5 } }].map(&:first)
  end

  contract "a timeout that passed without effect leaves nothing to come" do
    20.times { Timeout.timeout(0.05) { nil } }
    assert_takes(0.06) { sleep 0.06 }
  end

  contract "many timeouts at once", gap: 0.040 do
    strands = Array.new(200) { |i| strand { Timeout.timeout(0.01 + (i % 10 * 0.002)) { sleep } } }
    assert_equal [Timeout::Error], strands.map { |one| one.failure.class }.uniq
  end

  contract "a socket read goes on after a timeout" do
    reader, writer = keep(*UNIXSocket.pair)
    assert_raises(Timeout::Error) { Timeout.timeout(0.01) { reader.read(5) } }
    GC.start
    writer.write("hello")
    assert_equal "hello", reader.read(5)
  end

  contract "break, next, throw and return leave the block" do
    assert_equal :broken, Timeout.timeout(1) { break :broken }
    assert_equal :thrown, catch(:out) { Timeout.timeout(1) {
 sleep(0.001) && throw(:out, :thrown) } }
    assert_equal :returned, returning
    assert_takes(0.03) { sleep 0.03 }
  end

  contract "an error of the block is its own" do
    assert_raises(ArgumentError) { Timeout.timeout(1) { sleep(0.001) && raise(ArgumentError) } }
  end

  contract "a timeout raises once though the block goes on computing", gap: nil do
    count = 0
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.01) { loop { sleep(0.001) || (count += 1) } }
    end
    assert_takes(0.02) { sleep 0.02 }
  end

  contract "ends a block that computes", gap: nil do
    assert_takes(0.02, slack: 3) do # by a thread that has to get its turn
      assert_raises(Timeout::Error) { Timeout.timeout(0.02) { loop {} } }
    end
    error = assert_raises(Special) { Timeout.timeout(0.02, Special, "slow") { loop {} } }
    assert_equal "slow", error.message
    assert_equal :inner, (Timeout.timeout(5) do
      Timeout.timeout(0.02) { loop {} }
    rescue Timeout::Error
      :inner
    end)
  end

  contract "ends a block whose enumerator computes", gap: nil do
    endless = Enumerator.new { |_| loop {} }
    assert_raises(Timeout::Error) { Timeout.timeout(0.02) { endless.next } }
  end

  contract "a block that holds its timeout back gets it at its end", gap: nil do
    finished = false
    assert_raises(Special) do
      Timeout.timeout(0.1, Special) do
        Thread.handle_interrupt(Special => :never) do
          nil until Thread.pending_interrupt?
          finished = true
        end
      end
    end
    assert finished
    assert_takes(0.02) { sleep 0.02 }
  end

  contract "one that is held back, and then waits, strikes nobody else", gap: nil do
    late = strand do
      assert_raises(Special) do
        Timeout.timeout(0.02, Special) do
          Thread.handle_interrupt(Special => :never) do
            nil until Thread.pending_interrupt?
            sleep 0.05
          end
        end
      end
    end
    others = strand do
      50.times { Thread.handle_interrupt(IOError => :never) { sleep 0.002 } }
      :whole
    end
    assert_equal :whole, others.value
    late.value
  end

  contract "each of many that compute in turns gets its own", gap: nil do
    strands = Array.new(5) do |i|
      strand do
        assert_raises(Special) do
          Timeout.timeout(0.05, Special, i.to_s) do
            loop do
              ending = clock + 0.01
              nil while clock < ending
              sleep(0.001)
            end
          end
        end.message
      end
    end
    assert_equal %w[0 1 2 3 4], strands.map(&:value)
  end

  def returning
    Timeout.timeout(0.5) { return :returned }
  end

  def taken_mutex
    @taken_mutex ||= Mutex.new.tap do |mutex|
      @gate = gate = Queue.new
      @holder = parked { mutex.synchronize { gate.pop } }
    end
  end

  def release_mutex
    return unless @gate

    @gate << nil
    @holder.join
    @gate = @taken_mutex = nil
  end

  contract "forgets the timeouts of a fiber that was collected", only: :fibers, gap: nil do
    inner = 100.times.map do
      Fiber.new { Timeout.timeout(0.05) { Fiber.yield } }.tap(&:resume).object_id
    end
    before = scheduler.stats[:timers]
    assert_operator before, :>=, 100
    GC.start
    # Their stacks are used anew, by fibers and by what these call.
    others = 200.times.map { Fiber.new { [1, 2].each { Fiber.yield("x" * 100) } }.tap(&:resume) }
    sleep 0.01 until scheduler.stats[:timers] <= before - 100
    GC.start
    alive = ObjectSpace.each_object(Fiber).map(&:object_id)
    assert_operator (inner & alive).size, :<, 20, "the loop keeps them"
    assert(others.all?(&:alive?))
  end

  contract "raises at its next wait in a fiber that was suspended", only: :fibers do
    inner = Fiber.new do
      Timeout.timeout(0.3, IndexError) { Timeout.timeout(0.01, KeyError) { Fiber.yield && sleep } }
    rescue IndexError => error
      error
    end
    inner.resume
    sleep 0.001 until scheduler.stats[:timers].zero? # the ticker's sleeps
    assert_instance_of KeyError, inner.resume(true)
  end

  contract "raises at the end of its block in a fiber that was suspended", only: :fibers do
    fibers = [[], [KeyError]].map do |arguments|
      Fiber.new do
        Timeout.timeout(0.01, *arguments) { Fiber.yield(:first) && :value }
      rescue StandardError => error
        error
      end
    end
    fibers.each(&:resume)
    sleep 0.001 until scheduler.stats[:timers].zero? # the ticker's sleeps
    assert_equal([Timeout::Error, KeyError], fibers.map { |fiber| fiber.resume(true).class })
  end
end

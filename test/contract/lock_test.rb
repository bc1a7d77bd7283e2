# frozen_string_literal: true

require "monitor"
require_relative "../support/contract"

# Mutex, Monitor and ConditionVariable.
class LockTest < Contract
  contract "a mutex excludes, and hands over" do
    mutex = Mutex.new
    inside = 0
    most = 0
    strands = Array.new(10) do
      strand do
        mutex.synchronize do
          most = [most, inside += 1].max
          sleep 0.001
          inside -= 1
        end
      end
    end
    strands.each(&:value)
    assert_equal [1, 0], [most, inside]
    refute_predicate mutex, :locked?
  end

  contract "a mutex hands over in the order of asking" do
    mutex = Mutex.new
    order = []
    mutex.lock
    strands = Array.new(5) { |i| parked { mutex.synchronize { order << i } } }
    mutex.unlock
    strands.each(&:value)
    assert_equal [0, 1, 2, 3, 4], order
  end

  contract "try_lock, owned? and locked?" do
    mutex = Mutex.new
    assert mutex.try_lock
    assert_equal [false, false, true], strand {
 [mutex.try_lock, mutex.owned?, mutex.locked?] }.value
    assert_predicate mutex, :owned?
    mutex.unlock
    refute_predicate mutex, :locked?
  end

  same_as_threads "locking what one owns, unlocking what one does not" do
    mutex = Mutex.new
    mutex.lock
    foreign = strand { outcome { mutex.unlock } }.value
    own = outcome { mutex.lock }
    mutex.unlock
    [own, outcome { mutex.unlock }, foreign.first].map { |error| Array(error).first }
  end

  # Each leaves one: from two, Ruby's threads end with "[BUG] invalid keeping_mutexes" (3.1 to 3.4).
  same_as_threads "a fiber wants what the one that has resumed it holds", ruby: ">= 3.2" do
    [Thread::Mutex.new, Monitor.new].map do |lock|
      steps = Enumerator.new { |found| lock.synchronize { found << :entered } }
      lock.synchronize { outcome { steps.next } }
    end
  end

  contract "what a strand leaves locked is unlocked when it ends" do
    mutex = Class.new(Mutex).new
    monitor = Monitor.new
    kept = Mutex.new
    gate = Queue.new
    holder = parked { kept.synchronize { gate.pop } }
    leaving = [parked { mutex.lock && sleep(0.01) },
               strand { 2.times { monitor.enter } }]
    waiting = parked { mutex.synchronize { :inside } }
    assert_equal %i[inside inside], [waiting.value, monitor.synchronize { :inside }]
    assert_equal [true, false], [kept.locked?, mutex.locked?]
    gate << 1
    [*leaving, holder].each(&:value)
  end

  contract "all that a fiber leaves locked is unlocked when it ends", only: :fibers do
    left = Array.new(3) { Mutex.new }
    strand { left.each(&:lock) && left[1].unlock && left[1].lock }.value
    assert_empty left.select(&:locked?)
  end

  contract "Mutex#sleep lets others in and takes the lock again" do
    mutex = Mutex.new
    mutex.lock
    other = strand { mutex.synchronize { :inside } }
    assert_takes(0.02) { mutex.sleep(0.02) }
    assert_predicate mutex, :owned?
    assert_equal :inside, other.value
    mutex.unlock
  end

  contract "a monitor is reentrant" do
    monitor = Monitor.new
    order = []
    monitor.synchronize do
      monitor.synchronize { order << :inner }
      other = parked { monitor.synchronize { order << :other } }
      sleep 0.002
      order << :outer
      monitor.exit
      other.value
      monitor.enter
    end
    assert_equal %i[inner outer other], order
  end

  contract "a condition variable wakes one by signal, all by broadcast" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    woken = 0
    waiting = Array.new(4) { parked { mutex.synchronize {
 condition.wait(mutex) && (woken += 1) } } }
    mutex.synchronize { condition.signal }
    sleep 0.001 until woken.positive?
    sleep 0.005
    assert_equal 1, woken
    mutex.synchronize { condition.broadcast }
    waiting.each(&:value)
    assert_equal 4, woken
  end

  contract "a condition variable wakes in the order of waiting" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    order = []
    waiting = Array.new(4) { |i| parked { mutex.synchronize {
 condition.wait(mutex) && order << i } } }
    4.times do |i|
      mutex.synchronize { condition.signal }
      sleep 0.001 until order.size > i # of two that are awake, either may be first
    end
    waiting.each(&:value)
    assert_equal [0, 1, 2, 3], order
  end

  contract "a timed wait ends after its time, holding the lock" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    mutex.synchronize do
      assert_takes(0.03) { condition.wait(mutex, 0.03) }
      assert_predicate mutex, :owned?
    end
  end

  contract "a timed wait that is signalled ends at once" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    waiting = parked { assert_takes(0, slack: 1) { mutex.synchronize {
 condition.wait(mutex, 5) } } }
    mutex.synchronize { condition.signal }
    assert waiting.value
  end

  contract "a wait tells a timeout, nil, from a wake-up, seconds" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    mutex.synchronize do
      assert_nil mutex.sleep(0.002)
      assert_nil condition.wait(mutex, 0.002)
      waker = strand { mutex.synchronize { condition.signal } }
      assert_kind_of Integer, condition.wait(mutex, 5)
      waker.join
      assert_raises(TypeError) { mutex.sleep("1") }
      assert_predicate mutex, :owned?
    end
    assert_raises(ThreadError) { mutex.sleep(0.001) }
  end

  contract "an exception while waiting on a condition arrives as itself" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    waiting = parked do
      mutex.synchronize do
        condition.wait(mutex)
      ensure
        @owned = mutex.owned?
      end
    end
    waiting.interrupt(ArgumentError.new("itself"))
    error = waiting.failure
    assert_equal [ArgumentError, "itself", true], [error.class, error.message, @owned]
    refute_predicate mutex, :locked?
  end

  contract "a timeout around a condition, the lock taken meanwhile" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    waiting = strand do
      mutex.synchronize { Timeout.timeout(0.02) { condition.wait(mutex) } }
    end
    sleep 0.002
    holding = strand { mutex.synchronize { sleep 0.04 } }
    assert_kind_of Timeout::Error, waiting.failure
    holding.value
    refute_predicate mutex, :locked?
  end

  # So strikes a timeout of a fiber that computes, while another one is in Thread.handle_interrupt.
  contract "an exception at any call of Mutex#sleep leaves the lock owned", only: :fibers do
    mutex = Mutex.new
    calls = (1..).find do |nth|
      struck = owned = false
      mutex.synchronize do
        struck = exception_at_call?(nth) { mutex.sleep(0.001) }
        owned = mutex.owned?
      end
      assert owned, "after an exception at call #{nth}"
      !struck
    end
    assert_operator calls, :>, 2
    refute_predicate mutex, :locked?
  end

  # Ruby kills such a fiber anew each time that it has waited, also while it takes the lock again.
  { "Mutex#sleep" => ->(mutex) { mutex.sleep },
    "a condition" => ->(mutex) { ConditionVariable.new.wait(mutex, 5) } }.each do |name, wait|
    contract "Fiber#kill in #{name} waits for the lock", only: :fibers, ruby: ">= 3.3" do
      mutex = Mutex.new
      owned = nil
      waiting = Fiber.schedule do
        mutex.synchronize do
          wait.call(mutex)
        ensure
          owned = mutex.owned?
        end
      end
      mutex.synchronize do
        strand { waiting.kill }.join
        sleep 0.005
        assert_predicate waiting, :alive?, "it came out of the wait without the lock"
      end
      sleep 0.001 while waiting.alive?
      assert owned
      refute_predicate mutex, :locked?
    end
  end

  # The block computes past its deadline in C, while another strand masks; the unlock behind it is
  # then the first to call something.
  contract "a timeout strikes in no unlock", gap: nil do
    gate = Queue.new
    masking = strand { Thread.handle_interrupt(IOError => :never) { gate.pop } }
    numbers = Array.new(2_000_000) { rand }
    mutex = Mutex.new
    waiting = nil
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.15) do
        mutex.synchronize do
          waiting = strand { mutex.synchronize { :locked } }
          sleep(0.001) # until it waits
          numbers.sort!
        end
        sleep
      end
    end
    gate << 1
    assert_equal [1, :locked], [masking.value, waiting.value]
    refute_predicate mutex, :locked?
  end

  contract "a monitor's condition: wait, wait_while, timeout" do
    monitor = Monitor.new
    condition = monitor.new_cond
    ready = false
    waiting = parked { monitor.synchronize { condition.wait_while { !ready } && :woken } }
    monitor.synchronize do
      assert_takes(0.01) { condition.wait(0.01) }
      ready = true
      condition.broadcast
    end
    waiting.value
  end

  contract "MonitorMixin queue of producers and consumers", gap: 0.030 do
    monitor = Monitor.new
    condition = monitor.new_cond
    items = []
    consumers = Array.new(4) do
      strand do
        Array.new(25) do
          monitor.synchronize do
            condition.wait_until { items.any? }
            items.shift
          end
        end
      end
    end
    100.times { |i| monitor.synchronize { items << i && condition.signal } }
    assert_equal (0...100).to_a, consumers.flat_map(&:value).sort
  end

  contract "a lock held over a wait is let go when the waiter is interrupted" do
    mutex = Mutex.new
    holding = parked { mutex.synchronize { sleep } }
    next_one = parked { mutex.synchronize { :mine } }
    holding.interrupt(RuntimeError.new("out"))
    assert_equal "out", holding.failure.message
    assert_equal :mine, next_one.value
  end

  contract "an interrupt of one who waits for a lock leaves the lock sound" do
    mutex = Mutex.new
    mutex.lock
    waiting = parked { mutex.lock }
    waiting.interrupt(RuntimeError.new("out"))
    assert_equal "out", waiting.failure.message
    other = parked { mutex.synchronize { :mine } }
    mutex.unlock
    assert_equal :mine, other.value
  end

  contract "an interrupt while a condition takes its lock again waits for the lock" do
    mutex = Mutex.new
    condition = ConditionVariable.new
    owned = nil
    waiting = parked do
      mutex.synchronize do
        condition.wait(mutex)
        sleep 5
      ensure
        owned = mutex.owned?
      end
    end
    mutex.lock
    condition.signal
    sleep 0.005
    waiting.interrupt(ArgumentError.new("late"))
    sleep 0.005
    refute waiting.ended?, "it came out of the wait without the lock"
    mutex.unlock
    assert_equal ["late", true], [waiting.failure.message, owned]
    refute_predicate mutex, :locked?
  end

  # Whoever was woken for the lock must take it or pass it on. What becomes of the one interrupted
  # (it raises, or it had the lock in time) is not asked here: the next one's turn is.
  # Plain threads do lose it there, on Ruby 3.1 as on 3.4.
  { "before" => %i[interrupt unlock], "after" => %i[unlock interrupt] }.each do |name, steps|
    contract "an interrupt just #{name} the lock was handed over loses no turn", only: :fibers do
      mutex = Mutex.new
      mutex.lock
      first, second = Array.new(2) { parked { mutex.synchronize { sleep(0.001) && :mine } } }
      doing = { interrupt: -> { first.interrupt(RuntimeError.new) }, unlock: -> { mutex.unlock } }
      steps.each { |step| doing.fetch(step).call }
      assert_equal :mine, second.value
      outcome { first.value }
      refute_predicate mutex, :locked?
    end
  end

  contract "a timeout at the moment the lock is handed over loses no turn", only: :fibers,
gap: nil do
    10.times do |i|
      mutex = Mutex.new
      mutex.lock
      first = parked { Timeout.timeout(0.01) { mutex.synchronize { sleep(0.001) && :mine } } }
      second = parked { mutex.synchronize { :mine } }
      deadline = clock + 0.004 + (i * 0.001)
      nil until clock > deadline
      mutex.unlock
      assert_equal :mine, second.value
      outcome { first.value }
    end
  end

  private

  # Raises at the nth call of a method in C that the block leads to.
  def exception_at_call?(nth)
    fiber = Fiber.current
    calls = 0
    trace = TracePoint.new(:c_call) do
      raise ArgumentError, "struck" if Fiber.current.equal?(fiber) && (calls += 1) == nth
    end
    trace.enable { yield }
    false
  rescue ArgumentError
    true
  end
end

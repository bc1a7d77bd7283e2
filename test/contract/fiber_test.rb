# frozen_string_literal: true

require_relative "../support/contract"

# Fibers under the scheduler: scheduled, nested, blocking, in Enumerators, and throw.
class FiberContractTest < Contract
  contract "Fiber.schedule runs at once up to the first wait", only: :fibers do
    order = []
    fiber = Fiber.schedule { (order << 1) && sleep(0) && (order << 3) }
    order << 2
    assert_kind_of Fiber, fiber
    refute_predicate fiber, :blocking?
    sleep 0.005
    assert_equal [1, 2, 3], order
    refute_predicate fiber, :alive?
  end

  contract "Fiber.schedule inside a scheduled fiber", only: :fibers do
    order = []
    outer = strand do
      inner = strand { (order << :inner) && sleep(0.002) && :value }
      order << :outer
      inner.value
    end
    assert_equal :value, outer.value
    assert_equal %i[inner outer], order
  end

  contract "a scheduled fiber is its own current fiber", only: :fibers do
    seen = nil
    fiber = Fiber.schedule { sleep(0.001) && seen = Fiber.current }
    sleep 0.005
    assert_same fiber, seen
  end

  contract "Fiber.scheduler and Fiber.current_scheduler", only: :fibers do
    assert_same scheduler, Fiber.scheduler
    assert_same scheduler, Fiber.current_scheduler
    assert_nil Fiber.new(blocking: true) { Fiber.current_scheduler }.resume
    assert_nil Thread.new { Fiber.scheduler }.value
  end

  contract "a nested fiber waits inside resume" do
    inner = Fiber.new do |first|
      sleep 0.005
      second = Fiber.yield(first + 1)
      sleep 0.005
      second * 2
    end
    assert_equal 2, inner.resume(1)
    assert_equal 20, inner.resume(10)
    assert_raises(FiberError) { inner.resume }
  end

  contract "nested fibers in many strands" do
    strands = Array.new(20) do |i|
      strand do
        generator = Fiber.new { 3.times { |n| sleep(0.001) && Fiber.yield((i * 10) + n) } }
        Array.new(3) { generator.resume }
      end
    end
    assert_equal((0...20).map { |i| [i * 10, (i * 10) + 1, (i * 10) + 2] }, strands.map(&:value))
  end

  contract "a nested fiber that reads a socket" do
    reader, writer = keep(*UNIXSocket.pair)
    lines = Fiber.new { loop { Fiber.yield(reader.gets) } }
    feeding = strand { 3.times { |i| sleep(0.002) && writer.puts(i) } }
    assert_equal %W[0\n 1\n 2\n], Array.new(3) { lines.resume }
    feeding.join
  end

  contract "deep nesting: three resumes down" do
    deep = ->(n) { n.zero? ? (sleep(0.003) && :bottom) : Fiber.new { deep.call(n - 1) }.resume }
    assert_equal :bottom, deep.call(3)
  end

  contract "Enumerator#next with waits inside" do
    numbers = Enumerator.new { |to| 4.times { |i| sleep(0.002) && to << i } }
    assert_equal [0, 1, 1, 2, 3],
[numbers.next, numbers.peek, numbers.next, numbers.next, numbers.next]
    assert_raises(StopIteration) { numbers.next }
  end

  # Before 3.2 an external enumerator's fiber blocks: what it reads has to be there already.
  contract "Enumerators of two sockets, zipped" do
    pairs = Array.new(2) { keep(*UNIXSocket.pair) }
    writers = pairs.map(&:last).reverse
    writing = strand do
      3.times { |i| sleep(0.002) && writers.each { |writer| writer.puts(i) } }
      writers.each(&:close)
    end
    lists = pairs.map { |reader, _| reader.each_line }
    assert_equal [%W[0\n 0\n], %W[1\n 1\n], %W[2\n 2\n]], lists.first.zip(lists.last)
    writing.join
  end

  contract "external enumerators side by side" do
    make = ->(n) { Enumerator.new { |to| loop { sleep(0.001) && to << n } } }
    one = make.call(1)
    two = make.call(2)
    strands = [one, two].map { |list| strand { Array.new(5) { list.next } } }
    assert_equal [[1] * 5, [2] * 5], strands.map(&:value)
  end

  contract "lazy enumerators wait where they are" do
    squares = (1..Float::INFINITY).lazy.map { |n| sleep(0.001) && n * n }.reject(&:even?)
    assert_equal [1, 9, 25], squares.first(3)
  end

  contract "an exception in a nested fiber comes out of resume" do
    inner = Fiber.new { sleep(0.002) && raise(ArgumentError, "inner") }
    assert_equal "inner", assert_raises(ArgumentError) { inner.resume }.message
    refute_predicate inner, :alive?
  end

  contract "an ensure of Fiber#kill waits to its end", ruby: ">= 3.3" do
    reader, writer = keep(*IO.pipe)
    seen = []
    fiber = Fiber.new do
      Fiber.yield
    ensure
      seen << sleep(0.001) << reader.readpartial(1) << strand { sleep(0.001) && :other }.value
    end
    fiber.resume
    writer.write("x")
    assert_same fiber, fiber.kill
    refute_predicate fiber, :alive?
    assert_equal [0, "x", :other], seen
  end

  contract "an ensure of Fiber#kill in a scheduled fiber waits to its end",
           ruby: ">= 3.3", only: :fibers do
    seen = []
    fiber = Fiber.schedule do
      sleep
    ensure
      2.times { seen << sleep(0.001) }
    end
    fiber.kill
    sleep 0.001 while fiber.alive?
    assert_equal [0, 0], seen
  end

  contract "Fiber#raise into a nested fiber that has yielded" do
    inner = Fiber.new do
      Fiber.yield :first
    rescue ArgumentError
      sleep(0.001) && :rescued
    end
    assert_equal :first, inner.resume
    assert_equal :rescued, inner.raise(ArgumentError)
  end

  contract "throw and catch around waits" do
    value = catch(:out) do
      10.times { |i| sleep(0.001) && i == 3 && throw(:out, i) }
      :never
    end
    assert_equal 3, value
  end

  contract "throw without catch raises in the thrower" do
    thrown = strand { sleep(0.001) && throw(:nowhere) }
    assert_kind_of UncaughtThrowError, thrown.failure
  end

  contract "a catch does not reach into another strand" do
    other = nil
    value = catch(:out) do
      other = strand { sleep(0.002) && throw(:out, :wrong) }
      sleep 0.01
      :right
    end
    assert_equal :right, value
    assert_kind_of UncaughtThrowError, other.failure
  end

  contract "a blocking fiber blocks, and says so", only: :fibers, gap: nil do
    fiber = Fiber.new(blocking: true) { [Fiber.current.blocking?, sleep(0.02)] }
    other = strand { sleep(0.001) && clock }
    start = clock
    assert_equal true, fiber.resume.first
    assert_operator clock - start, :>=, 0.02
    assert_operator other.value - start, :>=, 0.02
  end

  contract "NB.run in a blocking fiber hands on what its block yields", only: :fibers do
    fiber = Fiber.new(blocking: true) do |one|
      NB.run { sleep(0.001) && [one, Fiber.yield(:first, 1), sleep(0.001) && Fiber.yield(:second)] }
    end
    assert_equal [:first, 1], fiber.resume(2)
    assert_equal :second, fiber.resume(3)
    assert_equal [2, 3, 4], fiber.resume(4)
    numbers = Enumerator.new { |to| NB.run { 3.times { |i| sleep(0.001) && to << i } } }
    assert_equal([0, 1, 2], Array.new(3) { numbers.next })
  end

  contract "Fiber.blocking", only: :fibers, ruby: ">= 3.2", gap: nil do
    assert_equal [1, nil], Fiber.blocking { |fiber|
 [fiber.blocking? && 1, Fiber.current_scheduler] }
    refute_predicate Fiber.current, :blocking?
  end

  contract "blocking reads inside a blocking fiber", only: :fibers, gap: nil do
    reader, writer = keep(*UNIXSocket.pair)
    writer.write("x")
    assert_equal "x", Fiber.new(blocking: true) { reader.read(1) }.resume
  end

  contract "fiber storage is inherited", only: :fibers, ruby: ">= 3.2" do
    Fiber[:request] = 7
    seen = nil
    Fiber.schedule { sleep(0.001) && (seen = Fiber[:request]) && Fiber[:request] = 8 }
    sleep 0.005
    assert_equal [7, 7], [seen, Fiber[:request]]
  end

  contract "transfer among one's own fibers" do
    log = []
    home = Fiber.current
    other = Fiber.new { log << :other and sleep(0.002) and log << :woken and home.transfer(:back) }
    assert_equal :back, other.transfer
    assert_equal %i[other woken], log
  end

  contract "a fiber entered by transfer ends in the one that began" do
    assert_equal :ended, Fiber.new { sleep(0.002) && :ended }.transfer
    failing = Fiber.new { sleep(0.002) && raise(KeyError, "mine") }
    error = assert_raises(KeyError) { failing.transfer }
    assert_equal "mine", error.message
    assert_raises(FiberError) { Fiber.new { Fiber.current.resume }.transfer }
    assert_equal :caught, catch(:out) { Fiber.new { :caught }.transfer }
  end

  contract "a chain of transfers ends in the last fiber that was resumed" do
    log = []
    last = Fiber.new { Fiber.new { log << :inner }.resume and log << :last and sleep(0.002) && 3 }
    middle = Fiber.new { last.transfer and log << :never }
    first = Fiber.new { (log << middle.transfer) && :first }
    assert_equal :first, first.resume
    assert_equal [:inner, :last, 3], log
  end

  contract "who comes back by transfer is no longer the one in whom others end" do
    home = Fiber.current
    other = Fiber.new { |value| value = home.transfer(value + 1) while value }
    assert_equal [2, 3], [other.transfer(1), other.transfer(2)]
    inner = Fiber.new { Fiber.new { 5 }.transfer }
    assert_equal 5, inner.resume
    assert_nil other.transfer(nil)
  end

  contract "a transfer from a blocking fiber ends in it" do
    assert_equal 3, Fiber.new(blocking: true) { Fiber.new { 2 }.transfer + 1 }.resume
  end

  contract "transfers in many strands end each in its own" do
    strands = Array.new(20) do |i|
      strand { Array.new(3) { |n| Fiber.new { sleep(0.001) && ((i * 10) + n) }.transfer } }
    end
    assert_equal Array.new(20) { |i| [i * 10, (i * 10) + 1, (i * 10) + 2] }, strands.map(&:value)
  end

  contract "Fiber#raise in one that has left by transfer" do
    home = Fiber.current
    fiber = Fiber.new { home.transfer }
    fiber.transfer
    assert_raises(KeyError) { fiber.raise KeyError }
    refute_predicate fiber, :alive?
    ready = Fiber.new { home.transfer rescue :rescued } # rubocop:disable Style/RescueModifier
    ready.transfer
    assert_equal :rescued, ready.raise("x")
  end

  # Ruby 3.1 and 3.2 refuse it.
  contract "Fiber#raise in one that has resumed one that has left by transfer" do
    home = Fiber.current
    inner = Fiber.new { home.transfer }
    outer = Fiber.new { inner.resume }
    outer.transfer
    error = assert_raises(FiberError, KeyError) { outer.raise KeyError }
    assert_equal [error.is_a?(FiberError)] * 2, [inner, outer].map(&:alive?)
  end

  contract "Fiber#raise in one that has resumed the caller" do
    outer = Fiber.new { Fiber.new { outer.raise(KeyError) }.resume }
    assert_raises(FiberError, KeyError) { outer.resume }
  end

  contract "Fiber#raise in one that has resumed one that waits", only: :fibers do
    inner = Fiber.new { sleep }
    middle = Fiber.new { inner.resume }
    outer = strand { middle.resume }
    sleep 0.002
    begin
      middle.raise(KeyError)
    rescue FiberError # Ruby 3.1 and 3.2
      inner.raise(KeyError)
    end
    sleep 0.002
    assert_kind_of KeyError, outer.failure
  end

  # Whose connections and state it uses depends on that.
  contract "Fiber#raise lets both fibers be who they are", only: :fibers do
    seen = []
    look = ->(who) { seen << [who, Fiber.scheduler.current.equal?(Fiber.current)] }
    raised_in = Fiber.schedule do
      sleep
    rescue KeyError
      look.call(:at_once)
      sleep(0.001)
      look.call(:later)
    end
    Fiber.schedule { raised_in.raise(KeyError) || look.call(:raiser) }
    sleep 0.005
    assert_equal [[:at_once, true], [:raiser, true], [:later, true]], seen
  end

  contract "a timeout around a transfer" do
    waiting = Fiber.new { sleep }
    assert_raises(Timeout::Error) { Timeout.timeout(0.005) { waiting.transfer } }
    refute_predicate waiting, :alive?
  end

  contract "dead fibers raise when resumed" do
    fiber = Fiber.new { :done }
    assert_equal :done, fiber.resume
    assert_raises(FiberError) { fiber.resume }
  end

  contract "resuming a fiber that waits in the loop raises FiberError", only: :fibers do
    waiting = Fiber.schedule { sleep 0.01 }
    assert_raises(FiberError) { waiting.resume }
    sleep 0.015
    refute_predicate waiting, :alive?
  end

  contract "at_exit order of locals: each strand has its own", only: :fibers do
    Thread.current[:mine] = 1
    assert_nil strand { Thread.current[:mine] }.value
    assert_equal 1, Thread.current[:mine]
  end
end

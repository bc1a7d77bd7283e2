# frozen_string_literal: true

require_relative "../support/contract"

# Kernel#sleep and the timers behind it.
class SleepTest < Contract
  contract "sleep is never early" do
    [0.0001, 0.001, 0.0123, 0.03].each { |seconds| assert_takes(seconds) { sleep(seconds) } }
  end

  # Ruby counts by its clock's seconds: a sleep over their change answers 1.
  contract "sleep answers whole seconds" do
    assert_includes [0, 1], sleep(0.01)
    assert_includes [0, 1], sleep(0)
    assert_includes [1, 2], sleep(1.0)
  end

  contract "sleep takes what blocking Ruby takes" do
    assert_takes(0.01) { sleep(Rational(1, 100)) }
    assert_takes(0.01) { sleep(0.01r) }
    assert_includes [0, 1], sleep(0.0)
  end

  contract "sleep takes whatever has divmod" do
    assert_takes(0.01) { sleep(Class.new { def divmod(_) = [0, 0.01] }.new) }
  end

  same_as_threads "what sleep refuses" do
    [outcome { sleep(-1) }, outcome { sleep("1") }, outcome { sleep(Object) }, outcome {
 sleep(1, 2) },
     outcome { sleep(-0.1) }].inspect
  end

  same_as_threads "what is too long to count" do
    [Float::NAN, -Float::INFINITY, Float::INFINITY, 1e30, 2**70].map { |seconds| outcome { sleep(seconds) } }
  end

  same_as_threads "sleep of nil, from Ruby 3.3 on", ruby: ">= 3.3" do
    waiting = parked { sleep(nil) }
    waiting.interrupt(RuntimeError.new("woken"))
    waiting.failure.message
  end

  # ConditionVariable#wait and Mutex#sleep take it in all versions: lock_test.rb.
  same_as_threads "sleep of nil, before Ruby 3.3", ruby: "< 3.3" do
    [outcome { sleep(nil) }, outcome { Kernel.sleep(nil) }]
  end

  # Where one deadline is before the other for certain: a busy machine may come between two strands.
  contract "sleepers wake in the order of their deadlines", only: :fibers do
    order = []
    began = {}
    asleep = [0.10, 0.02, 0.06, 0.04, 0.08].to_h do |seconds|
      sleeper = strand { (began[seconds] = clock) && sleep(seconds) && order << seconds }
      [seconds, [sleeper, clock]]
    end
    asleep.each_value { |sleeper, _| sleeper.join }
    assert_equal asleep.keys.sort, order.sort
    order.combination(2) do |first, later|
      assert_operator began[first] + first, :<=, asleep[later].last + later, order.inspect
    end
  end

  contract "many sleep at once", gap: 0.040 do
    start = clock
    Array.new(500) { strand { sleep 0.05 } }.each(&:join)
    assert_in_time clock - start, 5.0 * PATIENCE # one after the other: 25 s; a thread needs 2 ms
  end

  contract "sleep zero lets others run", only: :fibers, chaos: false do
    order = []
    one = strand { 3.times { |i| (order << [1, i]) && sleep(0) } }
    two = strand { 3.times { |i| (order << [2, i]) && sleep(0) } }
    [one, two].each(&:join)
    assert_equal [[1, 0], [2, 0], [1, 1], [2, 1], [1, 2], [2, 2]], order
  end

  contract "those who only sleep zero do not starve sockets and timers", only: :fibers do
    reader, writer = keep(*UNIXSocket.pair)
    spinning = true
    spinners = Array.new(3) { strand { sleep(0) while spinning } }
    got = strand { reader.read(1) }
    slept = strand { sleep 0.01 }
    writer.write("x")
    assert got.join(8) && slept.join(8)
    spinning = false
    spinners.each(&:value)
  end

  contract "an interrupted sleep leaves no timer" do
    10.times do
      waiting = parked { sleep 5 }
      waiting.interrupt(RuntimeError.new("up"))
      assert_equal "up", waiting.failure.message
    end
  end

  contract "no sleeper is woken by an earlier one's timer" do
    rounds = 0
    until rounds == 20
      waiting = parked { sleep 0.01 }
      waiting.interrupt(RuntimeError.new("up"))
      assert waiting.join
      next unless waiting.error # it had slept enough already

      assert_equal "up", waiting.failure.message
      assert_takes(0.012) { sleep 0.012 }
      rounds += 1
    end
  end
end

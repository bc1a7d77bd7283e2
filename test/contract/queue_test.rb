# frozen_string_literal: true

require_relative "../support/contract"

# Thread::Queue and Thread::SizedQueue.
class QueueTest < Contract
  contract "pop waits for push" do
    queue = Queue.new
    waiting = parked { queue.pop }
    refute waiting.ended?
    queue << :item
    assert_equal :item, waiting.value
  end

  contract "those who wait are served in order" do
    queue = Queue.new
    waiting = Array.new(4) { |i| parked { [i, queue.pop] } }
    4.times do |i|
      queue << i
      sleep 0.001 until queue.empty? # of two threads that are awake, either may be first
    end
    assert_equal [[0, 0], [1, 1], [2, 2], [3, 3]], waiting.map(&:value)
  end

  contract "several items pushed at once wake several" do
    queue = Queue.new
    waiting = Array.new(4) { parked { queue.pop } }
    4.times { |i| queue << i }
    assert_equal [0, 1, 2, 3], waiting.map(&:value).sort
  end

  contract "pop without waiting" do
    queue = Queue.new
    assert_raises(ThreadError) { queue.pop(true) }
    queue << 1
    assert_equal 1, queue.pop(true)
    assert_predicate queue, :empty?
  end

  contract "num_waiting counts those who wait" do
    queue = Queue.new
    waiting = Array.new(3) { parked { queue.pop } }
    assert_equal 3, queue.num_waiting
    3.times { queue << nil }
    waiting.each(&:value)
    assert_equal 0, queue.num_waiting
  end

  contract "close wakes all with nil" do
    queue = Queue.new
    waiting = Array.new(3) { parked { queue.pop } }
    queue.close
    assert_equal [nil] * 3, waiting.map(&:value)
    assert_raises(ClosedQueueError) { queue << 1 }
  end

  contract "pop with a timeout", ruby: ">= 3.2" do
    queue = Queue.new
    assert_nil(assert_takes(0.03) { queue.pop(timeout: 0.03) })
    assert_nil queue.pop(timeout: 0)
    waiting = parked { queue.pop(timeout: 5) }
    queue << :item
    assert_equal :item, waiting.value
    queue << :there
    assert_equal :there, queue.pop(timeout: 0)
  end

  contract "a pop that timed out takes no later item", ruby: ">= 3.2" do
    queue = Queue.new
    assert_nil queue.pop(timeout: 0.01)
    queue << :item
    assert_equal 1, queue.size
    assert_equal :item, queue.pop
  end

  contract "a sized queue makes the producer wait" do
    queue = SizedQueue.new(2)
    producer = parked { 5.times { |i| queue << i } }
    refute producer.ended?
    assert_equal [0, 1, 2, 3, 4], Array.new(5) { queue.pop }
    producer.value
  end

  contract "a sized queue's push with a timeout", ruby: ">= 3.2" do
    queue = SizedQueue.new(1)
    assert_same queue, queue.push(1, timeout: 0.01)
    assert_nil(assert_takes(0.02) { queue.push(2, timeout: 0.02) })
    waiting = parked { queue.push(3, timeout: 5) }
    assert_equal 1, queue.pop
    assert_same queue, waiting.value
    assert_equal 3, queue.pop
  end

  contract "a sized queue without waiting, closed, and with a new limit" do
    queue = SizedQueue.new(1)
    queue.push(1)
    assert_raises(ThreadError) { queue.push(2, true) }
    waiting = parked { queue.push(2) && :pushed }
    queue.max = 2
    assert_equal :pushed, waiting.value
    closed = parked { queue.push(3) }
    queue.close
    assert_kind_of ClosedQueueError, closed.failure
  end

  contract "ping-pong of two strands", gap: 0.030 do
    there = Queue.new
    back = Queue.new
    partner = strand { 1000.times { back << (there.pop + 1) } }
    assert_equal 1000, (1..1000).inject(0) { |n, _| (there << n) && back.pop }
    partner.value
  end

  contract "an interrupt of one who waits loses no item" do
    queue = Queue.new
    first = parked { queue.pop }
    second = parked { queue.pop }
    first.interrupt(RuntimeError.new("out"))
    assert_equal "out", first.failure.message
    queue << :item
    assert_equal :item, second.value
    assert_equal [0, 0], [queue.size, queue.num_waiting]
  end

  contract "items from threads wake strands" do
    queue = Queue.new
    waiting = Array.new(50) { parked { queue.pop } }
    threads = Array.new(5) { |i| Thread.new { 10.times { |j| queue << ((i * 10) + j) } } }
    assert_equal (0...50).to_a, waiting.map(&:value).sort
    threads.each(&:join)
  end

  contract "items from strands wake threads" do
    queue = Queue.new
    thread = Thread.new { Array.new(3) { queue.pop } }
    3.times { |i| sleep(0.001) && (queue << i) }
    assert_equal [0, 1, 2], thread.value
  end

  contract "an interrupt of one who was just given an item loses no item", only: :fibers do
    queue = Queue.new
    first, second = Array.new(2) { parked { queue.pop } }
    queue << :item
    first.interrupt(RuntimeError.new("out"))
    outcome { first.value }
    queue << :next unless second.ended?
    assert_includes %i[item next], second.value
    third = parked { queue.pop }
    first.interrupt(RuntimeError.new("out")) unless first.ended?
    queue << :last
    assert_includes %i[next last], third.value
  end

  contract "an interrupt just before the item comes leaves it for the other", only: :fibers do
    queue = Queue.new
    first, second = Array.new(2) { parked { queue.pop } }
    first.interrupt(RuntimeError.new("out"))
    queue << :item
    got = outcome { first.value }
    queue << :item if got == :item
    assert_equal :item, second.value
  end
end

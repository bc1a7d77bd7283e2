# frozen_string_literal: true

require_relative "../support/compaction"
require_relative "../support/contract"
require_relative "../support/subprocess"

# The same kinds of waits while the collector runs at every chance, and while it moves objects.
class GCTest < Contract
  WORK = {
    "sleeps" => ->(_) { Array.new(3) { |i| sleep(0.0005) && i } },
    "sockets" => lambda do |t|
      one, two = t.keep(*UNIXSocket.pair)
      reading = t.strand { [two.gets, two.read(3), two.readpartial(9)] }
      one.write("line\n") && sleep(0.0005) && one.write("abc") && sleep(0.0005) && one.write("rest")
      reading.value
    end,
    "queues" => lambda do |t|
      queue = Queue.new
      waiting = Array.new(3) { t.strand { queue.pop } }
      3.times { |i| queue << i.to_s }
      waiting.map(&:value).sort
    end,
    "timeouts" => lambda do |_|
      [(Timeout.timeout(0.002) { sleep } rescue $!.class), Timeout.timeout(60) {
 sleep(0.0005) && "in time" }]
    end,
    "select" => lambda do |t|
      one, two = t.keep(*UNIXSocket.pair)
      ready = t.strand { IO.select([two], nil, nil, 60).map(&:size) }
      one.write("x")
      ready.value
    end,
    "interrupts" => lambda do |t|
      waiting = t.parked { sleep }
      waiting.interrupt(ArgumentError.new("moved"))
      waiting.failure.message
    end,
    "names" => ->(_) {
 Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).map(&:inspect_sockaddr) },
    "nested fibers" => ->(_) { Array.new(2) { Fiber.new { sleep(0.0005) && "inner" }.resume } },
    "close" => lambda do |t|
      one, = t.keep(*UNIXSocket.pair)
      waiting = t.parked { one.read(1) }
      one.close
      waiting.failure.class
    end,
    "threads" => ->(_) { Thread.new { sleep(0.0005) && "thread" }.value }
  }.freeze

  WORK.each do |name, work|
    same_as_threads "#{name} under GC.stress", gap: nil, limit: 120, ticker: false do
      GC.stress = true
      work.call(self)
    ensure
      GC.stress = false
    end
  end

  if GC.respond_to?(:compact)
    WORK.each do |name, work|
      contract "#{name} while objects move", gap: nil, limit: 120 do
        moving = strand { 3.times { Compaction.run && sleep(0.001) } }
        assert_equal work.call(self), work.call(self)
        moving.value
      end
    end

    contract "waits parked across a compaction", gap: nil, limit: 120 do
      one, two = keep(*UNIXSocket.pair)
      three, four = keep(*UNIXSocket.pair)
      queue = Queue.new
      waiting = [parked { two.read(1) }, parked { queue.pop }, parked { sleep(0.05) && :slept },
                 parked { Timeout.timeout(5) { four.wait_readable(5) && :ready } }]
      GC.start
      Compaction.run
      [one, three].each { |io| io.write("x") }
      queue << :item
      assert_equal [:item, :slept, :ready], waiting.drop(1).map(&:value)
      assert_equal "x", waiting.first.value
    end
  end

  # Until Ruby 3.2, compaction takes one of 30 keys that share a value of a WeakMap for the value.
  contract "a loop that ends many fibers while objects move", only: :fibers, gap: nil, limit: 120 do
    skip "this Ruby does not compact" unless GC.respond_to?(:compact)
    out = Subprocess.ruby(<<~'RUBY', limit: 100)
      ended = 0
      begin
        NB.run do
          30.times do
            NB.async do
              sleep
            ensure
              GC.compact
              sleep 0.001
              ended += 1
            end
          end
          sleep 0
          raise "over"
        end
      rescue RuntimeError
        p ended
      end
    RUBY
    assert_equal ["30\n", ""], [out.out, out.err[0, 1000]]
  end

  contract "references are sound after a move", only: :fibers, gap: nil, limit: 120 do
    skip "Ruby was built without it" unless GC.respond_to?(:verify_compaction_references)
    one, two = keep(*UNIXSocket.pair)
    waiting = parked { two.read(1) }
    begin
      double = RUBY_VERSION < "3.2" ? { double_heap: true } : { expand_heap: true }
      GC.verify_compaction_references(toward: :empty, **double)
    rescue NotImplementedError => error
      skip error.message
    end
    one.write("x")
    assert_equal "x", waiting.value
  end

  # Each loop is held by one object only, so nothing but itself keeps it in its place; and so is
  # Timeout::Error.
  contract "loops and classes that C remembers", only: :fibers, gap: nil, limit: 120 do
    out = Subprocess.ruby(<<~'RUBY', options: ["-rstringio"], limit: 100).out
      Holder = Struct.new(:loop)
      def hold = Holder.new.tap { |holder| holder.loop = NB::Scheduler.new }
      holders = Array.new(40) { hold }
      30_000.times.map { Object.new }
      begin
        double = RUBY_VERSION < "3.2" ? { double_heap: true } : { expand_heap: true }
        GC.verify_compaction_references(toward: :empty, **double)
      rescue NotImplementedError, NoMethodError
        GC.compact if GC.respond_to?(:compact)
      end
      reports = holders.map do |holder|
        Thread.new do
          Fiber.set_scheduler(holder.loop)
          $stderr = StringIO.new
          Fiber.schedule { raise "hello" } # told to the loop
        end.join && $stderr.string.include?("hello")
      end
      p reports.uniq
      begin
        NB.run { Timeout.timeout(0.01) { sleep(1) rescue p($!) } }
      rescue Timeout::Error => error
        p error.class
      end
    RUBY
    assert_equal "[true]\nTimeout::Error\n", out
  end

  # Ruby 3.1 has that value, meanwhile, where its collector does not look. The method of Ruby's
  # around ours takes what else points to it by chance.
  contract "the value of a thread whose loop collects before it ends", only: :fibers, gap: nil do
    out = Subprocess.ruby(<<~'RUBY').out
      class Wrapped < NB::Scheduler
        def close = super
      end
      threads = Array.new(20) do |i|
        Thread.new do
          Fiber.set_scheduler(Wrapped.new)
          Fiber.schedule { sleep(0.001) && GC.start && Array.new(1000) { Object.new } }
          "value #{i}"
        end.join
      end
      GC.start
      p threads.map(&:value) == Array.new(20) { |i| "value #{i}" }
    RUBY
    assert_equal "true\n", out
  end

  contract "a fiber parked and forgotten is not collected", only: :fibers, gap: nil do
    one, two = keep(*UNIXSocket.pair)
    got = nil
    Fiber.schedule { got = two.read(1) }
    5.times { GC.start }
    one.write("x")
    sleep 0.001 until got
    assert_equal "x", got
  end

  contract "IO objects forgotten in a wait are not closed", only: :fibers, gap: nil do
    far = forgotten_reader
    5.times { GC.start }
    far.write("x")
    sleep 0.001 until @got
    assert_equal "x", @got
    far.close
  end

  def forgotten_reader
    near, far = UNIXSocket.pair
    Fiber.schedule do
      @got = near.read(1)
      near.close
    end
    far
  end
end

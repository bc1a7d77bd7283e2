# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# Many of everything, each in a process of its own: Ruby keeps the memory maps of fibers' stacks.
class ScaleTest < ScriptCase
  # Runs the block beside a ticker and says whether it never stood still for as long as the limit,
  # computing left out: a busy machine makes that as long as it likes.
  TICKING = <<~RUBY.freeze
    require #{File.expand_path("../support/ticker", __dir__).dump}
    def ticking(limit)
      ticker = Ticker.new
      NB.run do
        Fiber.schedule { ticker.run }
        yield Fiber.scheduler
      ensure
        ticker.stop
      end
      puts ticker.stillest.still < limit ? "flowing" : "the loop stood still: \#{ticker.stillest}"
    end
  RUBY

  script "ten thousand sleepers", TICKING + <<~'RUBY', out: "10000\nflowing\n", only: :fibers, limit: 60
    woken = 0
    ticking(0.5) do
      10_000.times { Fiber.schedule { sleep(0.3) && woken += 1 } }
      sleep 0.01 until woken == 10_000
      p woken
    end
  RUBY

  script "four thousand fibers wait for a socket each", TICKING + <<~'RUBY',
    hard = Process.getrlimit(:NOFILE).last
    Process.setrlimit(:NOFILE, [20_000, hard].min, hard)
    ticking(0.5) do
      pairs = Array.new(4_000) { UNIXSocket.pair }
      got = 0
      pairs.each { |reader, _| Fiber.schedule { got += 1 if reader.read(1) } }
      pairs.each { |_, writer| writer.write("x") }
      sleep 0.01 until got == 4_000
      p got
    end
  RUBY
         out: "4000\nflowing\n", only: :fibers, limit: 60

  script "thirty-one thousand fibers, or as many as the system maps", <<~'RUBY',
    count = [31_000, (Integer(File.read("/proc/sys/vm/max_map_count")) / 2) - 2_000].min
    NB.run do
      queue = Queue.new
      woken = 0
      count.times { Fiber.schedule { queue.pop || woken += 1 } }
      p Fiber.scheduler.stats[:fibers] > count
      queue.close
      sleep 0.01 until woken == count
      p Fiber.scheduler.stats[:fibers] < 5
    end
  RUBY
         out: "true\ntrue\n", only: :fibers, limit: 120

  script "without memory for more fibers: an error of that call; when others have ended, it goes on",
         <<~'RUBY', out: "FiberError\n1\n", only: :fibers, limit: 120
           NB.run do
             queue = Queue.new
             begin
               60_000.times { Fiber.schedule { queue.pop } }
               puts "FiberError" # a system with room for all
             rescue FiberError => error
               p error.class
             end
             queue.close
             sleep 0.01 while Fiber.scheduler.stats[:fibers] > 2
             Fiber.schedule { p 1 }
           end
         RUBY

  script "a hundred thousand fibers one after the other", TICKING + <<~'RUBY',
    done = 0
    ticking(0.5) do |scheduler|
      1_000.times do
        100.times { Fiber.schedule { sleep(0) && done += 1 } }
        sleep 0
      end
      sleep 0.001 until done == 100_000
      p scheduler.stats[:fibers] < 200
    end
  RUBY
         out: "true\nflowing\n", only: :fibers, limit: 120

  script "a hundred thousand timeouts come and go", TICKING + <<~'RUBY', out: "true\nflowing\n", only: :fibers, limit: 60
    ticking(0.5) do |scheduler|
      100_000.times { |i| Timeout.timeout(60 + (i % 7)) { nil } }
      p scheduler.stats[:timers] < 5
    end
  RUBY

  script "a hundred thousand timers at once", <<~'RUBY', out: "true\n1000\n", only: :fibers, limit: 120
    def nested(depth, &block) = depth.zero? ? yield : Timeout.timeout(60 + depth) { nested(depth - 1, &block) }
    ended = 0
    gate = Queue.new
    NB.run do
      1_000.times { Fiber.schedule { nested(100) { gate.pop && ended += 1 } } }
      p Fiber.scheduler.stats[:timers] >= 100_000
      1_000.times { gate << true }
    end
    p ended
  RUBY

  script "one socket used forty thousand times", TICKING + <<~'RUBY', out: "20000\nflowing\n", only: :fibers, limit: 60
    ticking(0.5) do
      one, two = UNIXSocket.pair
      Fiber.schedule { 20_000.times { two.write(two.readpartial(1)) } }
      p(20_000.times { one.write("x") && one.readpartial(1) })
    end
  RUBY
end
# rubocop:enable Layout/LineLength

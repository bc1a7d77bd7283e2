# frozen_string_literal: true

require_relative "../support/contract"

# Many of everything.
class ScaleTest < Contract
  contract "ten thousand sleepers", only: :fibers, gap: 0.250, limit: 60 do
    woken = 0
    start = clock
    10_000.times { Fiber.schedule { sleep(0.3) && woken += 1 } }
    sleep 0.01 until woken == 10_000 || clock - start > 30
    assert_equal 10_000, woken
  end

  contract "ten thousand fibers wait for sockets", only: :fibers, gap: 0.500, limit: 60 do
    raise_limit_to(9_000)
    pairs = Array.new(4_000) { UNIXSocket.pair }
    got = 0
    pairs.each { |reader, _| Fiber.schedule { got += 1 if reader.read(1) } }
    pairs.each { |_, writer| writer.write("x") }
    sleep 0.01 until got == 4_000
    pairs.flatten.each(&:close)
  end

  contract "thirty-one thousand fibers, or as many as the system maps", only: :fibers, gap: nil, limit: 120 do
    maps = Integer(File.read("/proc/sys/vm/max_map_count"))
    count = [31_000, (maps / 2) - 2_000].min
    queue = Queue.new
    made = 0
    count.times { Fiber.schedule { queue.pop } && made += 1 }
    assert_equal count, made
    queue.close
    sleep 0.05 while scheduler.stats[:fibers] > 10
  end

  contract "running out of memory maps is an error of that fiber alone", only: :fibers, gap: nil, limit: 120 do
    queue = Queue.new
    error = nil
    begin
      60_000.times { Fiber.schedule { queue.pop } }
    rescue FiberError, NoMemoryError => raised
      error = raised
    end
    queue.close
    sleep 0.05 while scheduler.stats[:fibers] > 10
    assert_match(/can't (set a guard page|alloc machine stack)|memory/i, error.message) if error
    assert_equal 1, strand { sleep(0.001) && 1 }.value
  end

  contract "a hundred thousand fibers one after the other", only: :fibers, gap: 0.250, limit: 120 do
    done = 0
    1_000.times do
      100.times { Fiber.schedule { sleep(0) && done += 1 } }
      sleep 0
    end
    sleep 0.001 until done == 100_000
    assert_operator scheduler.stats[:fibers], :<, 200
  end

  contract "a hundred thousand timers come and go", only: :fibers, gap: 0.250, limit: 60 do
    100_000.times { |i| Timeout.timeout(60 + (i % 7)) { nil } }
    assert_takes(0.01) { sleep 0.01 }
  end

  contract "a socket used a hundred thousand times", only: :fibers, gap: 0.100, limit: 60 do
    one, two = keep(*UNIXSocket.pair)
    echo = strand { 20_000.times { two.write(two.readpartial(1)) } }
    20_000.times { one.write("x") && one.readpartial(1) }
    echo.value
  end

  def raise_limit_to(count)
    soft, hard = Process.getrlimit(:NOFILE)
    Process.setrlimit(:NOFILE, [count, hard].min, hard) if soft < count
  end
end

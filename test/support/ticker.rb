# frozen_string_literal: true

# Wakes every 5 ms beside a test and keeps the largest gap between two wakes: what blocks the loop
# shows there. Time that the machine took is measured and taken off: waiting for a CPU
# (/proc/.../schedstat, nanoseconds on the run queue) and garbage collection.
class Ticker
  INTERVAL = 0.005

  attr_reader :largest, :raw, :count

  def initialize
    @largest = @raw = 0.0
    @count = 0
    @stopped = false
  end

  # Runs until {#stop}, in a fiber or thread of its own.
  def run
    open_meter
    last = now
    taken = taken_by_machine
    until @stopped
      sleep INTERVAL
      note(last, taken, last = now, taken = taken_by_machine)
    end
  ensure
    close_meter
    @ended = true
  end

  def stop = @stopped = true
  def ended? = @ended

  private

  def note(last, taken, at, taken_now)
    @count += 1
    @raw = [@raw, at - last].max
    @largest = [@largest, (at - last) - (taken_now - taken)].max
  end

  # The file is read in a blocking fiber: no scheduler sees it.
  def open_meter
    @meter = Fiber.new(blocking: true) do
      File.open("/proc/thread-self/schedstat") do |file|
        nil while Fiber.yield(file.pread(80, 0).split[1].to_i) == :read
      end
    end
    @meter.resume
  end

  def close_meter = @meter&.resume(:close)
  def taken_by_machine = (@meter.resume(:read) + GC.total_time) / 1e9
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# Wakes every 5 ms beside a test and keeps the largest gap between two wakes: what blocks the loop
# shows there. Time that the machine took is measured and taken off: waiting for a CPU
# (/proc/.../schedstat, nanoseconds on the run queue) and garbage collection.
class Ticker
  INTERVAL = 0.005

  # One look at the clocks, in seconds: by the wall, on a CPU, waiting for one, collecting garbage.
  Look = Struct.new(:wall, :cpu, :queued, :garbage) do
    def -(other) = Look.new(*zip(other).map { |mine, its| mine - its })
    def gap = wall - queued - garbage

    def to_s
      format("%.1f ms by the clock, of it %.1f on a CPU, %.1f waiting for one, %.1f collecting garbage",
             *map { |seconds| seconds * 1000 })
    end
  end

  # @yield in a loop, beside a ticker
  # @return [Float] seconds that the ticker was late at most
  def self.lateness
    ticker = new
    NB.run do
      ticking = NB.async { ticker.run }
      yield
      ticker.stop
      ticking.wait
    end
    ticker.largest - INTERVAL
  end

  # @return [Look] the largest gap
  attr_reader :worst

  def initialize
    @worst = Look.new(0, 0, 0, 0)
    @stopped = false
  end

  # @return [Float] seconds of the largest gap, without what the machine took
  def largest = @worst.gap

  # Runs until {#stop}, in a fiber or thread of its own.
  def run
    open_meter
    last = look
    until @stopped
      sleep INTERVAL
      before = last
      gap = (last = look) - before
      @worst = gap if gap.gap > @worst.gap
    end
  ensure
    close_meter
    @ended = true
  end

  def stop = @stopped = true
  def ended? = @ended

  # @return [Look] the clocks now; only between {#run} and {#stop}
  def look
    Look.new(Process.clock_gettime(Process::CLOCK_MONOTONIC), *@meter.resume(:read),
             GC.total_time / 1e9)
  end

  private

  # The file is read in a blocking fiber: no scheduler sees it.
  def open_meter
    @meter = Fiber.new(blocking: true) do
      File.open("/proc/thread-self/schedstat") do |file|
        nil while Fiber.yield(file.pread(80, 0).split.first(2).map { |ns|
 Integer(ns) / 1e9 }) == :read
      end
    end
    @meter.resume
  end

  def close_meter = @meter&.resume(:close)
end
# rubocop:enable Layout/LineLength

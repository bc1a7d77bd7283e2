# frozen_string_literal: true

require "fcntl"
require_relative "clock"
require_relative "machine"

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# Wakes every 5 ms beside a test and keeps the largest gap between two wakes: whatever blocks the
# loop shows there. Time that the machine took is measured and subtracted: waiting for a CPU
# (/proc/.../schedstat, nanoseconds on the run queue), garbage collection, and what {Machine} saw.
# Computation takes longer on a busy machine, but blocking is not computing, so the two are kept
# apart.
class Ticker
  include Clock

  INTERVAL = 0.005
  # One reading of the clocks, in seconds: wall clock, on a CPU, waiting for one, collecting
  # garbage; for a difference also how long the machine stood still.
  Look = Struct.new(:wall, :cpu, :queued, :garbage, :stalled) do
    def -(other) = Look.new(*zip(other).map { |mine, its| mine - its })

    # The difference, including what the machine took.
    def since(other)
      (self - other).tap { |gap| gap.stalled = Machine.stalled(other.wall, wall) }
    end

    def gap = wall - queued - garbage - stalled
    # Neither computing nor kept waiting: in a call that blocks, or simply asleep.
    def still = wall - queued - cpu - stalled
    # The minimum that others took of a long time: while we waited for a CPU, so did they, before or
    # after (servers, children, native threads).
    def others = still - queued

    def to_s
      format("%.1f ms by the clock, of it %.1f on a CPU, %.1f waiting for one, %.1f collecting garbage, " \
             "%.1f in which the machine stood still", *map { |seconds| seconds * 1000 })
    end
  end

  # @yield in a loop, beside a ticker
  # @return [Float] the ticker's greatest lateness caused by blocking, in seconds
  def self.lateness
    ticker = new
    NB.run do
      ticking = NB.async { ticker.run }
      yield
      ticker.stop
      ticking.wait
    end
    ticker.stillest.still - INTERVAL
  end

  # @return [Look] the cost of the block on this thread, without a ticker
  def self.around
    ticker = new
    ticker.__send__(:open_meter)
    before = ticker.look
    yield
    ticker.look.since(before)
  ensure
    ticker.__send__(:close_meter)
  end

  # Linux doubles a process's table of descriptors when the 65th, 257th, 513th and so on is opened.
  # In a process with threads, whoever opens it waits 8 to 20 ms for that, whatever the library.
  def self.grow_table
    @grow_table ||= File.open(File::NULL) do |file|
      last = [Process.getrlimit(:NOFILE).first, 4096].min - 1
      IO.for_fd(file.fcntl(Fcntl::F_DUPFD, last)).close || true
    end
  end

  def initialize
    @worst = @stillest = Look.new(0, 0, 0, 0, 0)
    @suspects = [] # [before, after] of a gap in which something or the machine stood still
    @stopped = false
  end

  # Both only after {#run}.
  # @return [Look] the largest gap
  def worst = [@worst, *settled].max_by(&:gap)
  # @return [Look] the gap with the most time in which nothing computed
  def stillest = [@stillest, *settled].max_by(&:still)

  # @return [Float] seconds of the largest gap, without what the machine took
  def largest = worst.gap

  # Runs until {#stop}, in a fiber or thread of its own.
  def run
    open_meter
    last = look
    until @stopped
      sleep INTERVAL
      before = last
      keep(before, last = look)
    end
  ensure
    close_meter
    @ended = true
  end

  def running? = !@meter.nil?
  def stop = @stopped = true
  def ended? = @ended

  # @return [Look] the clocks now; only between {#run} and {#stop}. Reads again if we lost the CPU
  #   between one clock and the next.
  def look
    found = nil
    5.times do
      found = Look.new(clock, Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID),
                       @meter.resume(:read), GC.total_time / 1e9, 0.0)
      break if clock - found.wall < 0.001
    end
    found
  end

  private

  def keep(before, after)
    gap = after - before
    return @suspects << [before, after] if gap.still > 2 * INTERVAL

    @worst = gap if gap.gap > @worst.gap
    @stillest = gap if gap.still > @stillest.still
  end

  def settled = @settled ||= @suspects.map { |before, after| after.since(before) }

  # The file is read in a blocking fiber, so no scheduler sees it. (Its time on a CPU is as old as
  # the kernel's last tick.)
  def open_meter
    Ticker.grow_table
    @meter = Fiber.new(blocking: true) do
      File.open("/proc/thread-self/schedstat") do |file|
        nil while Fiber.yield(Integer(file.pread(80, 0).split[1]) / 1e9) == :read
      end
    end
    @meter.resume
  end

  def close_meter = @meter&.resume(:close)
end
# rubocop:enable Layout/LineLength

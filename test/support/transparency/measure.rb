# frozen_string_literal: true

# One operation in many fibers at once, beside a ticker.
class Measure
  # Between the starts of two fibers, in seconds: so that what each computes does not add up in one
  # turn of the loop.
  APART = 0.0005

  attr_reader :count, :delay

  def initialize(count, delay)
    @count = count
    @delay = delay
  end

  # @return [Array] the values of the block
  def run(&block)
    GC.start
    ticker = Ticker.new
    ticking = NB.async { ticker.run }
    sleep 0.001 until ticker.running? # under chaos not from the start
    before = ticker.look
    values = start(&block).map(&:value)
    after = ticker.look
    ticker.stop
    ticking.wait
    @all = after - before
    @all = after.since(before) if took > @delay + Ticker::INTERVAL
    @worst = ticker.worst
    @stillest = ticker.stillest
    values
  ensure
    ticker.stop
  end

  # Between two ticks, in seconds: more is no computing but waiting in a circle.
  COMPUTING = 0.05

  # Seconds that all took, without those in which this thread computed or waited for a CPU: at least
  # what the server took, since both may wait at the same time.
  def took = [@all.others, [@all.wall, @delay].min].max

  # Seconds by the clock.
  def lasted = @all.wall

  # Milliseconds that one computes.
  def computed_ms = (@all.cpu * 1000 / @count).round(1)

  # Milliseconds that the ticker was late at most, without what the machine took.
  def late_ms = ((@worst.gap - Ticker::INTERVAL) * 1000).clamp(0, nil).round(1)

  # @return [String, nil] what shows that the loop stood still; under chaos (NB_CHAOS) it does
  def blocking(slack, late)
    return if ENV["NB_CHAOS"]

    return "#{@count} took #{@all}, one #{@delay} s" if took > @delay + slack

    return "something blocked: #{@stillest}" if @stillest.still - Ticker::INTERVAL > late

    "the loop stood still: #{@worst}" if late_ms > (late + COMPUTING) * 1000
  end

  private

  def start
    Array.new(@count) do |index|
      sleep APART
      NB.async { yield index }
    end
  end
end

# frozen_string_literal: true

# One run of one contract in one world, with a ticker beside it and a list of what it leaves behind.
class ContractRun
  # The result of a run: value or error, largest gaps, leftovers.
  Result = Struct.new(:value, :error, :worst, :stillest, :left, :hung, keyword_init: true)

  attr_reader :world, :scheduler

  def initialize(test, world, limit:, ticker: true, &body)
    @test = test
    @world = world
    @limit = limit
    @body = body
    @strands = []
    @open = []
    @ticker = Ticker.new if ticker
    @result = Result.new(left: [])
  end

  # @return [Result]
  def run
    before = Leaks.snapshot
    @thread = Thread.new { @world.enter { conduct } }
    @thread.report_on_exception = false
    @thread.join(@limit) ? note_end : give_up
    @result.left.concat(Leaks.since(before)) unless @result.hung
    @result.worst = @ticker&.worst
    @result.stillest = @ticker&.stillest
    @result
  rescue Exception => error # rubocop:disable Lint/RescueException -- the loop itself failed
    @result.error ||= error
    @result
  end

  def strand(&block) = @world.strand(&block).tap { |strand| @strands << strand }

  # Closes the IOs at the end of the run.
  def keep(*ios)
    @open.concat(ios)
    ios.size == 1 ? ios.first : ios
  end

  private

  # A loop that ends early leaves its fibers where they are, and no `ensure` runs.
  def note_end
    @result.error ||= Minitest::Assertion.new("the loop has ended, the body has not") unless @ended
  end

  def conduct
    @scheduler = Fiber.scheduler
    @ticking = @world.strand { @ticker.run } if @ticker
    before = held
    @result.value = @test.instance_exec(&@body)
  rescue Exception => error # rubocop:disable Lint/RescueException -- raised by the test's own thread
    @result.error ||= error # its end may come of giving up
  ensure
    settle(before)
    @ticker&.stop
    @ticking&.join(20)
    @ended = true
  end

  # Every strand has ended, every IO is closed, and the scheduler holds what it held before.
  def settle(before)
    running = @strands.reject { |strand| strand.join(@result.error ? 0 : 20) }
    @result.left << "#{running.size} strands still running" unless running.empty?
    running.each(&:abandon)
    unseen = @strands.find { |strand| !strand.seen? }
    @result.error ||= unseen.error if unseen
    @open.reverse_each { |io| io.close unless io.closed? }
    compare_held(before)
  end

  def compare_held(before)
    after = held
    1000.times do
      break if after == before

      sleep 0.001
      after = held
    end
    @result.left << "scheduler held #{before}, holds #{after}" unless after == before
  end

  # What the scheduler holds while only the ticker waits, for its next tick.
  def held
    return {} unless @scheduler.respond_to?(:stats)

    100.times { ticking? ? break : sleep(0.0005) }
    stats = @scheduler.stats
    { fibers: stats[:fibers], timers: stats[:timers], waits: @scheduler.waits.size }
  end

  def ticking?
    return true unless @ticker

    @scheduler.waits.any? { |wait|
 wait[:fiber].equal?(@ticking.target) && wait[:timeout] && !wait[:ready] }
  end

  def give_up
    @result.hung = true
    @result.error = Minitest::Assertion.new("still running after #{@limit} s\n#{state}")
    @thread.kill
    @thread.join(1)
  end

  def state
    waits = @scheduler.respond_to?(:waits) ? @scheduler.waits.map(&:inspect) : []
    [*waits, *@thread.backtrace].join("\n  ")
  rescue StandardError => error
    "(no state: #{error.message})"
  end
end

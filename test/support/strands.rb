# frozen_string_literal: true

# A thread or fiber that runs beside a contract's body: its end, value, and interruption.
class Strand
  attr_reader :error

  def ended? = @ended
  def seen? = @error.nil? || @seen

  # Waits for the end, at most limit seconds, without one as long as the contract may take. Polls,
  # so it depends on nothing but `sleep`; less and less often, because each poll takes long under
  # GC.stress, and takes the strand's turns with it.
  def join(limit = nil)
    deadline = limit && (Process.clock_gettime(Process::CLOCK_MONOTONIC) + limit)
    pause = 0.001
    until @ended
      return nil if deadline && Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep pause
      pause = [pause * 1.25, 0.02].min
    end
    self
  end

  # The block's value, or its exception raised here.
  def value
    join
    @seen = true
    raise @error if @error

    @value
  end

  # The exception that ended the block; fails when there was none.
  def failure
    join
    @seen = true
    @error || raise(Minitest::Assertion, "expected an exception, got value #{@value.inspect}")
  end

  private

  def conduct
    @value = yield
  rescue Exception => error # rubocop:disable Lint/RescueException -- handed over in #value
    @error = error
  ensure
    @ended = true
  end
end

# A strand of the plain world.
class ThreadStrand < Strand
  def initialize(&block)
    super()
    @thread = Thread.new { conduct(&block) }
    @thread.report_on_exception = false
  end

  # True once it sleeps in a wait (or has ended).
  def parked? = @ended || @thread.status == "sleep"
  def interrupt(exception) = @thread.raise(exception)
  def abandon = @thread.kill.join(1)
  def target = @thread
end

# A strand of the loop.
class FiberStrand < Strand
  def initialize(&block)
    super()
    @scheduler = Fiber.scheduler
    @fiber = Fiber.schedule { conduct(&block) }
  end

  # Fiber.schedule runs the block at once and returns when it waits, or when its turn ended at an
  # earlier call: then it is about to run.
  def parked?
    return true if @ended || !@scheduler.respond_to?(:waits)

    @scheduler.waits.none? { |wait| wait[:fiber].equal?(@fiber) && wait[:ready] }
  end

  def interrupt(exception) = @scheduler.fiber_interrupt(@fiber, exception)

  def abandon
    return if @ended || !@fiber.alive?

    @scheduler.fiber_interrupt(@fiber, Abandoned.new("abandoned by the test"))
    join(1)
  end

  def target = @fiber

  # Ends what a failed test left running. Not a StandardError, so that no rescue stops it.
  class Abandoned < Exception; end # rubocop:disable Lint/InheritException
end

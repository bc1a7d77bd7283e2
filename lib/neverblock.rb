# frozen_string_literal: true

module NB
  module Rails # drivers/rails.rb and its like name what they need
    autoload :Railtie, File.join(__dir__, "neverblock/rails/railtie")
    autoload :Alone, File.join(__dir__, "neverblock/rails/alone")
  end
end

require_relative "neverblock/version"
require_relative "neverblock/errors"
require_relative "neverblock/native"
require_relative "neverblock/loop/scheduler"
require_relative "neverblock/loop/runner"
require_relative "neverblock/loop/await"
require_relative "neverblock/loop/shield"
require_relative "neverblock/loop/fork"
require_relative "neverblock/loop/dump"
require_relative "neverblock/sync/check"
require_relative "neverblock/sync/deadline"
require_relative "neverblock/sync/task"
require_relative "neverblock/sync/group"
require_relative "neverblock/sync/gather"
require_relative "neverblock/sync/limiter"
require_relative "neverblock/sync/periodic"
require_relative "neverblock/sync/retrying"
require_relative "neverblock/sync/fiber_pool"
require_relative "neverblock/sync/connection_pool"
require_relative "neverblock/sync/forked_worker"
require_relative "neverblock/sync/process_pool"
require_relative "neverblock/monitor/pool_listing"
require_relative "neverblock/monitor/task_reports"
require_relative "neverblock/legacy/names"
require_relative "neverblock/drivers/all"

# Plain blocking Ruby, run as evented I/O: the whole public interface.
#
# @example Twenty requests in the time of one
#   NB.run do
#     20.times.map { NB.async { Net::HTTP.get(URI("http://127.0.0.1:8080/")) } }.map(&:value)
#   end
module NB
  autoload :HTTP, File.join(__dir__, "neverblock/sync/persistent_http")
  autoload :Page, File.join(__dir__, "neverblock/page")
  autoload :BlockingCalls, File.join(__dir__, "neverblock/loop/blocking_calls")

  class << self
    # Runs the block inside a loop: every wait in it lets other fibers run. Returns when the block
    # and all fibers it started have ended. When the block raises, the others are cancelled first.
    # Inside another loop it only runs the block there.
    #
    # @param backend [Symbol, nil] `:epoll`, `:kqueue` or `:poll`; nil: NB_BACKEND, or the best
    # @param repairs [Boolean] whether to repair Ruby's own holes ({NB::Repairs})
    # @param on_interrupt [:drain, nil] nil: INT and TERM do what they do in Ruby. :drain: at the
    #   first of them it takes no more work (every {until_stop} ends, {stopping?} is true) and lets
    #   what runs end; the second interrupts the block
    # @param drain_timeout [Numeric, nil] seconds that what runs then has at most; 0: the first
    #   interrupts the block; nil: no limit
    # @param clock [Symbol] :real, or :virtual for tests: when all fibers wait, the time moves to
    #   the next of their timers at once. It passes as the real one while a fiber waits for
    #   something from elsewhere: a native thread (offloaded work, a lookup, Thread#join), a child
    #   process, or I/O whose other end is not in this process, or that another running thread
    #   could write to; not for a queue or lock that another thread holds, nor for a server's socket
    #   (one that listens, or one for datagrams that has a path or an address such as 127.0.0.1 and
    #   is not connected). While fibers compute it stands still. CLOCK_MONOTONIC is this time in the
    #   loop's fibers; Time.now is real
    # @return the block's value
    # @raise whatever the block raised
    # @raise [ArgumentError] for another clock, or a virtual one inside of a loop with a real one
    # @raise [Interrupt, SignalException] when INT or TERM has interrupted it
    # @scheduling always waits
    def run(backend: nil, repairs: true, clock: :real, on_interrupt: nil, drain_timeout: 30,
            &block)
      Check.block("NB.run", block)
      drain = Drain.asked(on_interrupt, Check.seconds("drain_timeout:", drain_timeout))
      Runner.run(backend: backend, repairs: repairs, clock: clock, drain: drain, &block)
    end

    # Waits for more work, until the program is to stop: where that takes its first signal, the
    # block ends. See {run}, `on_interrupt:`. A server's stop is such a signal, too.
    #
    # @example
    #   while (job = NB.until_stop { queue.pop })
    #     group.async { perform(job) }
    #   end
    # @return the block's value; nil when the program is to stop, at once when it was before
    # @raise whatever the block raised
    # @scheduling may wait, as the block does
    def until_stop(&block) = Drain.until_stop(&Check.block("NB.until_stop", block))

    # @return [Boolean] whether the program takes no more work: it has had its first signal
    # @scheduling never waits
    # @thread any
    def stopping? = Drain.stopping?

    # Starts a fiber. An error that nobody waits for is written to stderr. In a request of Rails it
    # begins with what the request has, and is a unit of work of its own.
    #
    # @param name [String, nil] for the report of an error, {dump} and `nb_tasks` in /metrics
    # @param background [Boolean] the loop does not go on for this task: when all others have
    #   ended, it is cancelled. The timeouts around this call do not hold for it
    # @return [Task] to `wait` for, take the `value` of, or `cancel`; the block has run until its
    #   first wait
    # @raise [NoSchedulerError] outside of a loop
    # @scheduling does not wait. But whoever starts 16 or more lets the others have their turn,
    #   about once per millisecond: before the new block begins, and without raising anything there
    def async(name: nil, background: false, &block)
      return Task.new(&block) if # makes no Proc of the block here, and no Hash of keywords
        block_given? && !name && !background && Inheritance.none? && Deadline.none?

      Check.block("NB.async", block)
      own = background ? in_background(&block) : Deadline.impose(block)
      task = Task.new(origin: block, name: name, &Inheritance.wrap(own, apart: true))
      task.background = background
      task
    end

    # Runs the block again and again, in a background task: at multiples of `interval` from now,
    # however long it takes (no drift). An error of the block is written to stderr, and the next run
    # comes all the same. `break` ends it.
    #
    # @example
    #   flush = NB.every(1.0, jitter: 0.1) { metrics.flush }
    #   flush.cancel
    # @param interval [Numeric] seconds, > 0; the first run comes after one interval
    # @param jitter [Numeric] seconds, at most the interval: each run comes up to so much later
    # @param missed [Symbol] runs whose time passed while one took longer than the interval: :skip,
    #   or :queue, they follow at once
    # @param name [String, nil] see {async}
    # @return [Task] `wait` for it to keep the loop going
    # @raise [ArgumentError]
    # @raise [NoSchedulerError] outside of a loop
    # @scheduling never waits
    def every(interval, jitter: 0, missed: :skip, name: nil, &block)
      periodic = Periodic.new(interval, jitter, missed, &Check.block("NB.every", block))
      own = in_background { periodic.call }
      task = Task.new(origin: block, name: name, &Inheritance.wrap(own, apart: true))
      task.background = true
      task
    end

    # Runs the block with a group for fibers, and ends when all of them have ended. The first error
    # cancels the others and is raised.
    #
    # @yieldparam group [Group] `group.async { }` starts a fiber
    # @return the block's value
    # @raise the first error of the block or a fiber
    # @scheduling may wait
    def group(&block) = Group.run(&Check.block("NB.group", block))

    # Runs all callables at once and waits for all of them.
    #
    # @param callables [Array<#call>]
    # @return [Array] their values, in order
    # @raise the first error; the others are cancelled
    # @scheduling may wait
    def gather(*callables, &block)
      Check.no_block("NB.gather", block)
      Gather.all(callables)
    end

    # Runs all callables at once and waits for all of them, or until time is up. An error ends
    # only the callable that raised it.
    #
    # @param callables [Array<#call>]
    # @param timeout [Numeric, nil] seconds; those that have not ended then are cancelled, and their
    #   error is a Timeout::Error. nil, 0 or infinite: no limit
    # @return [Array<Outcome>] values and errors, in order
    # @scheduling may wait
    def settle(*callables, timeout: nil, &block)
      Check.no_block("NB.settle", block)
      Gather.settle(callables, timeout: timeout)
    end

    # The values of all callables in the order in which they come.
    #
    # @example
    #   NB.as_completed(*mirrors.map { |uri| -> { Net::HTTP.get(uri) } }).each { |page| show(page) }
    # @param callables [Array<#call>]
    # @return [Enumerator] runs them all at once when it is read; leaving its `each` cancels the
    #   others. Who stops reading by `next` lets them end
    # @raise from `each` and `next`: the first error; the others are cancelled
    # @scheduling its `each` and `next` may wait
    def as_completed(*callables, &block)
      Check.no_block("NB.as_completed", block)
      Gather.as_completed(callables)
    end

    # Maps with at most `concurrency` blocks at a time; takes the next item when one has ended.
    #
    # @param items [#each] may be long; a lazy enumerator gives a lazy one
    # @param concurrency [Integer] 1 or more
    # @param errors [Symbol] :raise, or :return: an error stands in place of its value and cancels
    #   nobody
    # @return [Array, Enumerator::Lazy] the values in the order of the items; what `break` gives
    # @raise the first error; the others are cancelled
    # @scheduling may wait
    def map(items, concurrency:, errors: :raise, &block)
      Gather.map(items, concurrency: concurrency, errors: errors, &block)
    end

    # Runs all callables at once and returns the first value; the others are cancelled.
    #
    # @param callables [Array<#call>] one or more
    # @param count [Integer, nil] how many values; nil: one
    # @return the first value; with count an Array of so many
    # @raise if too many failed, the first error
    # @scheduling may wait
    def first(*callables, count: nil, &block)
      Check.no_block("NB.first", block)
      Gather.first(callables, count: count)
    end

    # Runs the block until it succeeds, at most so many times, with growing pauses in between. What
    # a cancel raised is final, and so is an error after which the pause would pass {deadline}.
    #
    # @example
    #   NB.retry(times: 5, on: [SystemCallError, Timeout::Error]) { deliver(message) }
    # @param times [Integer] 1 or more, the first included
    # @param on [Class, Module, Array<Class, Module>] errors after which it is run again
    # @param wait [Numeric, #call] seconds before the second run; each further pause is twice as
    #   long, up to `max_wait`, and shortened at random by up to a half. Or what is called with
    #   (attempt, error) and gives the seconds
    # @param max_wait [Numeric, nil] seconds; nil: no limit
    # @yieldparam attempt [Integer] 1, 2, ...
    # @return the block's value
    # @raise what the last run raised
    # @scheduling may wait
    # @thread any
    def retry(times: 3, on: StandardError, wait: 0.1, max_wait: 30, &block)
      Check.block("NB.retry", block_given?)
      # No Proc is made of the block.
      Retrying.call(times: times, on: on, wait: wait, max_wait: max_wait, &block)
    end

    # Runs the block in a forked child, for computing on another core; other fibers go on meanwhile.
    #
    # @return the block's value, by Marshal
    # @raise what the block raised, by Marshal
    # @scheduling always waits
    def in_process(&block) = ForkedWorker.run(&block)

    # Runs the block; raises Timeout::Error in it when it waits past the deadline. Nests; a
    # `rescue => e` inside the block does not catch it. Outside a loop it is Timeout.timeout.
    # Tasks that are started inside have the same {deadline}; those of {async}, which may outlive
    # the block, fail with a Timeout::Error of their own.
    #
    # @param seconds [Numeric, nil] > 0; nil, 0 or infinite: no limit
    # @param error [Class, Exception, nil] what to raise instead
    # @param message [String, nil]
    # @yield [seconds]
    # @return the block's value
    # @raise [Timeout::Error] or `error`
    # @scheduling may wait
    def timeout(seconds, error = nil, message = nil, &block)
      Check.block("NB.timeout", block)
      seconds = Check.seconds("NB.timeout: the limit", seconds)
      Check.exception("NB.timeout: the error", error)
      return Timeout.timeout(seconds, error, message, &block) if seconds.nil? || seconds.zero?

      Deadline.within(seconds, error, message, &block)
    end

    # What is left of the {timeout}s around this call, also of those around the tasks that started
    # this one. For clients with a limit of their own.
    #
    # @example
    #   http.read_timeout = NB.deadline || 60
    # @return [Float, nil] seconds, 0.0 when it has passed; nil: there is none
    # @scheduling never waits
    # @thread any
    def deadline = Deadline.left

    # Runs the block as a whole: what others raise in this fiber meanwhile (a cancel, a timeout, a
    # failed group, the end of the loop) comes out of here when the block has ended. What was raised
    # before comes out before it begins. Nests; a timeout or a group that begins inside works as
    # always. Tasks that are started inside are not shielded. An IO that another fiber closes still
    # raises.
    #
    # So does a signal that comes while the block waits. One that comes while it computes strikes at
    # once, as ever in Ruby, unless {run} has `on_interrupt: :drain`: there only the third of those
    # that come while it computes does.
    #
    # Outside of a loop it is `Thread.handle_interrupt(Object => :never)`: there no timeout strikes
    # inside, and nothing bounds it.
    #
    # @example Sent and marked, or neither
    #   NB.shield do
    #     deliver(message)
    #     mark_as_sent(message)
    #   end
    # @param seconds [Numeric, nil] how long the others wait at most, from when they want to raise;
    #   nil: until the block has ended
    # @return the block's value
    # @raise what was held back
    # @raise [NoSchedulerError] under a scheduler of another kind
    # @scheduling may wait, as the block does
    def shield(seconds = nil, &)
      Check.block("NB.shield", block_given?)
      seconds &&= Check.seconds("NB.shield: the bound", seconds)
      Shield.call(seconds, &) # no Proc is made of the block
    end

    # Runs the block on a native thread while other fibers go on: for C code that blocks and
    # releases the GVL. At most 32 at a time; further blocks queue. Spans of the block belong to the
    # caller's trace (OpenTelemetry and the like).
    #
    # @return the block's value
    # @raise whatever the block raised
    # @scheduling always waits
    # @thread any
    def offload(&block)
      Offload.default.call(&Inheritance.trace(Check.block("NB.offload", block)))
    end

    # Waits for a callback: the block gets a `resume` that ends the wait when it is called, from
    # any thread.
    #
    # @example
    #   body = NB.await { |resume| client.get(url) { |response| resume.call(response.body) } }
    # @yield [resume]
    # @yieldparam resume [Await::Resume] `call(value)` or `raise(error)`
    # @return what `resume` was called with
    # @scheduling may wait
    # @thread any
    def await(&block) = Await.call(&Check.block("NB.await", block))

    # Runs the block as plain blocking Ruby: the whole thread waits.
    #
    # @return the block's value
    # @scheduling never waits for other fibers
    def blocking(&block)
      Check.block("NB.blocking", block)
      return Fiber.blocking { yield } if Fiber.respond_to?(:blocking) # not with the fiber

      Fiber.current.blocking? ? yield : Runner.new(nil).from_blocking_fiber(&block)
    end

    # @return [Boolean] whether a loop runs the current fiber
    def running? = Fiber.current_scheduler.is_a?(Scheduler)

    # @return [Hash{Symbol => Integer, Float, String}, nil] the counters of this thread's loop;
    #   see {Scheduler#stats}
    # @scheduling never waits
    def stats
      Fiber.scheduler.stats if Fiber.scheduler.is_a?(Scheduler)
    end

    # Every fiber of this thread's loop: what it waits for, since when, and its backtrace.
    #
    # @return [Dump, nil] prints as text
    # @scheduling never waits
    def dump
      Dump.new(Fiber.scheduler) if Fiber.scheduler.is_a?(Scheduler)
    end

    # The pools of this process, in which something waits first: {ConnectionPool}, {FiberPool} and
    # {ProcessPool}, those of ActiveRecord and Sequel, and those of the gem connection_pool in which
    # a fiber has looked for a connection. At most 50, and of each at most 20 holders and waiters,
    # the longest first.
    #
    # Each Hash has `name`, `kind`, `size`, `in_use`, `idle`, `waiting`, since the pool was made
    # `waits_total`, `wait_seconds_total` and `timeouts_total` (nil: not known), `holders` (each
    # `fiber`, its object_id; `name` of its task; `held_seconds`, at least; `place` in the program)
    # and `waiters` (`fiber`, nil for a block that no fiber runs yet; `name`; `waited_seconds`;
    # `place`).
    #
    # @param scheduler [Scheduler, nil] of the fibers that use them, such as that of another thread
    # @return [Array<Hash{Symbol => Object}>]
    # @scheduling never waits
    # @thread any
    def pools(scheduler = Fiber.scheduler)
      PoolListing.new(Pools.accounts, (scheduler if scheduler.is_a?(Scheduler))).rows
    end

    # The calls for which this process's loops waited although no fiber could run meanwhile, since
    # {BlockingCalls.start}.
    #
    # @return [Array<BlockingCalls::Call>] the place that took longest first
    # @scheduling never waits
    def blocking_calls = BlockingCalls.list

    # Prints {NB.dump} to stderr whenever the process gets the signal.
    #
    # @param signal [String, Symbol, Integer] as for Kernel#trap
    # @return [void]
    def dump_on(signal)
      trap(signal) { warn(NB.dump || "no loop runs on this thread") }
    end

    private

    def in_background(&block)
      scheduler = Fiber.scheduler
      return -> { scheduler.idle(&block) } if scheduler.respond_to?(:idle)

      raise NoSchedulerError, "a background task needs NeverBlock's loop: call it inside NB.run { }"
    end
  end
end

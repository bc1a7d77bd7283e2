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
require_relative "neverblock/server/door"
require_relative "neverblock/monitor/pool_listing"
require_relative "neverblock/monitor/task_reports"
require_relative "neverblock/legacy/names"
require_relative "neverblock/drivers/all"

# The whole public interface. What starts fibers raises {NB::NoSchedulerError} outside a loop.
#
# @example Twenty requests in the time of one
#   NB.run do
#     20.times.map { NB.async { Net::HTTP.get(URI("http://127.0.0.1:8080/")) } }.map(&:value)
#   end
module NB
  autoload :HTTP, File.join(__dir__, "neverblock/sync/persistent_http")
  autoload :Page, File.join(__dir__, "neverblock/page")
  autoload :BlockingCalls, File.join(__dir__, "neverblock/loop/blocking_calls")
  autoload :Profile, File.join(__dir__, "neverblock/monitor/profile")

  class << self
    # Runs the block inside a loop: every wait in it lets other fibers run. Returns when the block
    # and all fibers it started have ended. If the block raises, the other fibers are cancelled
    # first. Inside another loop, it simply runs the block in that loop.
    #
    # @param backend [Symbol, nil] `:epoll`, `:kqueue` or `:poll`; nil: NB_BACKEND, or the best
    # @param repairs [Boolean] whether to repair Ruby's own defects ({NB::Repairs})
    # @param on_interrupt [:drain, nil] nil: INT and TERM do what they do in Ruby. :drain: the first
    #   of these signals stops new work (every {until_stop} ends, {stopping?} becomes true) and lets
    #   running work finish; the second one interrupts the block
    # @param drain_timeout [Numeric, nil] seconds that running work has after the first signal; 0:
    #   the first signal interrupts the block; nil: no limit
    # @param clock [Symbol] :real, or :virtual for tests. A virtual clock stands still while fibers
    #   compute, and jumps to the next timer when all fibers wait. It follows real time while a
    #   fiber waits for something from outside: a native thread (offloaded work, a lookup,
    #   Thread#join), a child process, or I/O whose other end is outside this process or within
    #   reach of another running thread. A lock or a queue is outside only while another thread
    #   runs; a server's socket (one that listens, or an unconnected datagram socket with a path or
    #   a loopback address) never. In the loop's fibers CLOCK_MONOTONIC is this clock; Time.now
    #   stays real
    # @return the block's value
    # @raise whatever the block raised
    # @raise [ArgumentError] for another clock, or a virtual clock inside a loop with a real one
    # @raise [Interrupt, SignalException] when INT or TERM interrupts the block
    # @scheduling always waits
    def run(backend: nil, repairs: true, clock: :real, on_interrupt: nil, drain_timeout: 30,
            &block)
      Check.block("NB.run", block)
      drain = Drain.asked(on_interrupt, Check.seconds("drain_timeout:", drain_timeout))
      Runner.run(backend: backend, repairs: repairs, clock: clock, drain: drain, &block)
    end

    # Runs a block that waits for more work. The block ends at its wait when the program is told to
    # stop: at the first INT or TERM (see {run}, `on_interrupt:`), or when its server stops.
    #
    # @example
    #   while (job = NB.until_stop { queue.pop })
    #     group.async { perform(job) }
    #   end
    # @return the block's value; nil when the program is told to stop, or already was
    # @raise whatever the block raised
    # @scheduling may wait, as the block does
    def until_stop(&block) = Drain.until_stop(&Check.block("NB.until_stop", block))

    # @return [Boolean] whether the program has been told to stop, and takes no new work
    # @scheduling never waits
    # @thread any
    def stopping? = Drain.stopping?

    # Starts a fiber. If it raises and nobody waits for it, the error is written to stderr. In a
    # Rails request, the fiber starts with a copy of the request's state, as a unit of work of its
    # own.
    #
    # @param name [String, nil] for the report of an error, {dump} and `nb_tasks` in /metrics
    # @param background [Boolean] true: the task does not keep the loop running; it is cancelled
    #   when all other tasks have ended. Timeouts around this call do not apply to it
    # @return [Task] with `wait`, `value` and `cancel`; its block has already run up to its first
    #   wait
    # @raise [NoSchedulerError] outside a loop
    # @scheduling does not wait. But from the 16th start on, other fibers run about once per
    #   millisecond, before the new block begins. Nothing is raised in the caller meanwhile
    def async(name: nil, background: false, &block)
      return Task.new(&block) if # makes no Proc of the block here, and no Hash of keywords
        block_given? && !name && !background && Inheritance.none? && Deadline.none?

      Check.block("NB.async", block)
      own = background ? in_background(&block) : Deadline.impose(block)
      task = Task.new(origin: block, name: name, &Inheritance.wrap(own, apart: true))
      task.background = background
      task
    end

    # Runs the block periodically in a background task, at multiples of `interval` from now, even if
    # a run takes long (no drift). If a run raises, the error is written to stderr and the next run
    # comes as planned. `break` ends the task.
    #
    # @example
    #   flush = NB.every(1.0, jitter: 0.1) { metrics.flush }
    #   flush.cancel
    # @param interval [Numeric] seconds, > 0; the first run comes after one interval
    # @param jitter [Numeric] seconds, at most the interval: each run is delayed by a random time up
    #   to this
    # @param missed [Symbol] what happens to runs that became due during a longer one: :skip drops
    #   them, :queue runs them right after it
    # @param name [String, nil] see {async}
    # @return [Task] `wait` for it to keep the loop running
    # @raise [ArgumentError]
    # @raise [NoSchedulerError] outside a loop
    # @scheduling never waits
    def every(interval, jitter: 0, missed: :skip, name: nil, &block)
      periodic = Periodic.new(interval, jitter, missed, &Check.block("NB.every", block))
      own = in_background { periodic.call }
      task = Task.new(origin: block, name: name, &Inheritance.wrap(own, apart: true))
      task.background = true
      task
    end

    # Runs the block with a group that starts fibers, and returns when all of them have ended. The
    # first error cancels the others and is raised.
    #
    # @yieldparam group [Group] `group.async { }` starts a fiber
    # @return the block's value
    # @raise the first error of the block or a fiber
    # @scheduling may wait
    def group(&block) = Group.run(&Check.block("NB.group", block))

    # Runs all callables concurrently and waits for all of them.
    #
    # @param callables [Array<#call>]
    # @return [Array] their values, in order
    # @raise the first error; the others are cancelled
    # @scheduling may wait
    def gather(*callables, &block)
      Check.no_block("NB.gather", block)
      Gather.all(callables)
    end

    # Runs all callables concurrently and waits for all of them, or until time is up. An error ends
    # only the callable that raised it.
    #
    # @param callables [Array<#call>]
    # @param timeout [Numeric, nil] seconds; callables that have not ended by then are cancelled,
    #   and their error is a Timeout::Error. nil, 0 or infinite: no limit
    # @return [Array<Outcome>] values and errors, in order
    # @scheduling may wait
    def settle(*callables, timeout: nil, &block)
      Check.no_block("NB.settle", block)
      Gather.settle(callables, timeout: timeout)
    end

    # Yields the values of all callables as they become available.
    #
    # @example
    #   NB.as_completed(*mirrors.map { |uri| -> { Net::HTTP.get(uri) } }).each { |page| show(page) }
    # @param callables [Array<#call>]
    # @return [Enumerator] starts all callables when it is read. If you leave its `each` early, the
    #   other callables are cancelled; if you stop calling `next`, they run to their end
    # @raise from `each` and `next`: the first error; the others are cancelled
    # @scheduling its `each` and `next` may wait
    def as_completed(*callables, &block)
      Check.no_block("NB.as_completed", block)
      Gather.as_completed(callables)
    end

    # Maps with at most `concurrency` blocks at a time; takes the next item when a block has ended.
    #
    # @param items [#each] may be long; for a lazy enumerator the result is lazy, too
    # @param concurrency [Integer] 1 or more
    # @param errors [Symbol] :raise; or :return: an error takes the place of the value, and the
    #   other blocks are not cancelled
    # @return [Array, Enumerator::Lazy] the values in the order of the items; or the value of
    #   `break`
    # @raise the first error; the others are cancelled
    # @scheduling may wait
    def map(items, concurrency:, errors: :raise, &block)
      Gather.map(items, concurrency: concurrency, errors: errors, &block)
    end

    # Runs all callables concurrently and returns the first value; the others are cancelled.
    #
    # @param callables [Array<#call>] one or more
    # @param count [Integer, nil] how many values; nil: one
    # @return the first value; with count, an Array of that many
    # @raise the first error, if too many callables failed
    # @scheduling may wait
    def first(*callables, count: nil, &block)
      Check.no_block("NB.first", block)
      Gather.first(callables, count: count)
    end

    # Runs the block until it succeeds, up to `times` times, with growing pauses in between. Two
    # errors are final: one that a cancel raised, and one after which the pause would pass
    # {deadline}.
    #
    # @example
    #   NB.retry(times: 5, on: [SystemCallError, Timeout::Error]) { deliver(message) }
    # @param times [Integer] 1 or more, the first included
    # @param on [Class, Module, Array<Class, Module>] errors after which the block runs again
    # @param wait [Numeric, #call] seconds before the second run. Each further pause doubles, up to
    #   `max_wait`; each is shortened at random by up to a half. A callable gets (attempt, error)
    #   and returns the seconds
    # @param max_wait [Numeric, nil] seconds; nil: no limit
    # @yieldparam attempt [Integer] 1, 2, ...
    # @return the block's value
    # @raise what the last run raised
    # @scheduling may wait
    # @thread any
    def retry(times: 3, on: StandardError, wait: 0.1, max_wait: 30, &block)
      Check.block("NB.retry", block_given?)
      # Passes the block on without making a Proc of it.
      Retrying.call(times: times, on: on, wait: wait, max_wait: max_wait, &block)
    end

    # Runs the block in a forked child, to compute on another core; other fibers run meanwhile.
    #
    # @return the block's value, copied by Marshal
    # @raise what the block raised, copied by Marshal
    # @scheduling always waits
    def in_process(&block) = ForkedWorker.run(&block)

    # Runs the block, and raises Timeout::Error in it if it runs past the deadline. Timeouts nest. A
    # `rescue => e` inside the block does not catch the error. Tasks that the block starts inherit
    # the {deadline}. Tasks of {async} may outlive the block, so each of them fails with a
    # Timeout::Error of its own. Outside a loop this is Timeout.timeout.
    #
    # @param seconds [Numeric, nil] > 0; nil, 0 or infinite: no limit
    # @param error [Class, Exception, nil] raised instead of Timeout::Error
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

    # The time left until the nearest deadline of the {timeout}s around this call, or around the
    # calls that started this task. Use it for client libraries that take a limit of their own.
    #
    # @example
    #   http.read_timeout = NB.deadline || 60
    # @return [Float, nil] seconds, 0.0 when the deadline has passed; nil: there is none
    # @scheduling never waits
    # @thread any
    def deadline = Deadline.left

    # Runs the block without interruption: whatever others raise in this fiber meanwhile (a cancel,
    # a timeout, a failed group, the end of the loop) is raised when the block has ended. So is what
    # was raised before and waits for the fiber's next wait: a shield in an `ensure` runs its block.
    # Shields nest. A shield does not cover a timeout or group that begins inside the block, nor
    # tasks that it starts. An IO that another fiber closes still raises.
    #
    # A signal that arrives while the block waits is held back, too. One that arrives while it
    # computes interrupts it at once, as always in Ruby; with `on_interrupt: :drain` in {run}, only
    # the third does. A signal or Thread#raise already on its way is raised before it begins.
    #
    # Outside a loop this is `Thread.handle_interrupt(Object => :never)`: no timeout interrupts the
    # block, and `seconds` has no effect.
    #
    # @example Sent and marked, or neither
    #   NB.shield do
    #     deliver(message)
    #     mark_as_sent(message)
    #   end
    # @param seconds [Numeric, nil] how long the block may hold an exception back, counted from when
    #   it would be raised; nil: until the block has ended
    # @return the block's value
    # @raise what was held back
    # @raise [NoSchedulerError] under a scheduler other than NB's
    # @scheduling may wait, as the block does
    def shield(seconds = nil, &)
      Check.block("NB.shield", block_given?)
      seconds = Check.seconds("NB.shield: the bound", seconds) unless seconds.nil?
      Shield.call(seconds, &) # no Proc is made of the block
    end

    # Runs the block on a native thread while other fibers run: for C code that blocks and releases
    # the GVL. At most 32 blocks run at a time; further ones queue. Spans opened in the block belong
    # to the caller's trace (OpenTelemetry and the like).
    #
    # @return the block's value
    # @raise whatever the block raised
    # @scheduling always waits
    # @thread any
    def offload(&block)
      Offload.default.call(&Inheritance.trace(Check.block("NB.offload", block)))
    end

    # Waits for a callback: the block gets a `resume`, and the wait ends when any thread calls it.
    #
    # @example
    #   body = NB.await { |resume| client.get(url) { |response| resume.call(response.body) } }
    # @yield [resume]
    # @yieldparam resume [Await::Resume] `call(value)` or `raise(error)`
    # @return what `resume` was called with
    # @scheduling may wait
    # @thread any
    def await(&block) = Await.call(&Check.block("NB.await", block))

    # Runs the block as plain blocking Ruby: the whole thread waits, and no other fiber runs.
    #
    # @return the block's value
    # @scheduling never waits for other fibers
    def blocking(&block)
      Check.block("NB.blocking", block)
      return Native.blocking { yield } if Native::BLOCKING # without the fiber as an argument

      Fiber.current.blocking? ? yield : Runner.new(nil).from_blocking_fiber(&block)
    end

    # @return [Boolean] whether a loop runs the current fiber
    def running? = Fiber.current_scheduler.is_a?(Scheduler)

    # @return [Hash{Symbol => Integer, Float, String}, nil] the counters of this thread's loop;
    #   see {Scheduler#stats}
    # @scheduling never waits
    def stats = (Fiber.scheduler.stats if Fiber.scheduler.is_a?(Scheduler))

    # Every fiber of this thread's loop: what it waits for, since when, and its backtrace.
    #
    # @return [Dump, nil] prints as text
    # @scheduling never waits
    def dump = (Dump.new(Fiber.scheduler) if Fiber.scheduler.is_a?(Scheduler))

    # Lists the pools of this process, those in which something waits first: {ConnectionPool},
    # {FiberPool} and {ProcessPool}, those of ActiveRecord and Sequel, and those of the gem
    # connection_pool that a fiber has used. At most 50 pools, each with at most 20 holders and 20
    # waiters, the longest first.
    #
    # Each Hash has `name`, `kind`, `size`, `in_use`, `idle`, `waiting`, `holders`, `waiters`, and
    # counts since the pool was made: `waits_total`, `wait_seconds_total`, `timeouts_total` (nil:
    # not known). A holder has `fiber` (its object_id), `name` of its task, `held_seconds` (a lower
    # bound) and `place` in the program. A waiter has `fiber` (nil for a block that has no fiber
    # yet), `name`, `waited_seconds` and `place`.
    #
    # @param scheduler [Scheduler, nil] the loop whose fibers it looks at, also another thread's
    # @return [Array<Hash{Symbol => Object}>]
    # @scheduling never waits
    # @thread any
    def pools(scheduler = Fiber.scheduler)
      PoolListing.new(Pools.accounts, (scheduler if scheduler.is_a?(Scheduler))).rows
    end

    # Lists the calls, since {BlockingCalls.start}, during which this process's loops waited and no
    # fiber could run.
    #
    # @return [Array<BlockingCalls::Call>] the place that took longest in all comes first
    # @scheduling never waits
    def blocking_calls = BlockingCalls.list

    # Prints the {dump} of each loop of this process to stderr whenever it receives the signal.
    #
    # @param signal [String, Symbol, Integer] as for Kernel#trap
    # @return [void]
    # @scheduling never waits
    def dump_on(signal) = trap(signal) { ErrorReport.tell("#{Dump.all}\n") }

    private

    def in_background(&block)
      scheduler = Fiber.scheduler
      return -> { scheduler.idle(&block) } if scheduler.respond_to?(:idle)

      raise NoSchedulerError, "a background task needs NeverBlock's loop: call it inside NB.run { }"
    end
  end
end

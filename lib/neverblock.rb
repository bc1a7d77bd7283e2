# frozen_string_literal: true

module NB
  autoload :Rails, "neverblock/rails/railtie" # drivers/rails.rb names it, when Rails is there
end

require_relative "neverblock/version"
require_relative "neverblock/errors"
require_relative "neverblock/native"
require_relative "neverblock/loop/scheduler"
require_relative "neverblock/loop/runner"
require_relative "neverblock/loop/await"
require_relative "neverblock/loop/fork"
require_relative "neverblock/loop/dump"
require_relative "neverblock/sync/task"
require_relative "neverblock/sync/group"
require_relative "neverblock/sync/gather"
require_relative "neverblock/sync/fiber_pool"
require_relative "neverblock/sync/connection_pool"
require_relative "neverblock/sync/forked_worker"
require_relative "neverblock/sync/process_pool"
require_relative "neverblock/legacy/names"
require_relative "neverblock/drivers/all"

# Plain blocking Ruby, run as evented I/O: everything that people call.
#
# @example Twenty requests in the time of one
#   NB.run do
#     20.times.map { NB.async { Net::HTTP.get(URI("http://127.0.0.1:8080/")) } }.map(&:value)
#   end
module NB
  autoload :HTTP, "neverblock/sync/persistent_http"

  class << self
    # Runs the block inside a loop: every wait in it lets other fibers run. Returns when the block
    # and all fibers it started have ended. When the block raises, the others are cancelled first.
    # Inside another loop it just runs the block there.
    #
    # @param backend [Symbol, nil] :epoll or :poll; nil takes NB_BACKEND, or the best one
    # @param repairs [Boolean] whether Ruby's own holes may be mended ({NB::Repairs})
    # @return the block's value
    # @raise whatever the block raised
    # @scheduling always waits
    def run(backend: nil, repairs: true, &block)
      raise ArgumentError, "NB.run: needs a block" unless block

      Runner.run(backend: backend, repairs: repairs, &block)
    end

    # Starts a fiber. An error that nobody waits for is written to stderr.
    #
    # @return [Task] to `wait` for, take the `value` of, or `cancel`; the block has run until its
    #   first wait
    # @raise [NoSchedulerError] outside of a loop
    # @scheduling never waits
    def async(&block) = Task.new(&block)

    # Runs the block with a group for fibers, and ends when all of them have ended. The first error
    # cancels the others and is raised.
    #
    # @yieldparam group [Group] `group.async { }` starts a fiber
    # @return the block's value
    # @raise the first error of the block or a fiber
    # @scheduling may wait
    def group(&block) = Group.run(&block)

    # Runs all at once and waits for all.
    #
    # @param callables [Array<#call>]
    # @return [Array] their values, in order
    # @raise the first error; the others are cancelled
    # @scheduling may wait
    def gather(*callables) = Gather.all(callables)

    # Maps with at most `concurrency` blocks at a time; takes the next item when there is room.
    #
    # @param items [#each] may be long; a lazy enumerator gives a lazy one
    # @param concurrency [Integer] 1 or more
    # @return [Array, Enumerator::Lazy] the values in the order of the items
    # @raise the first error; the others are cancelled
    # @scheduling may wait
    def map(items, concurrency:, &block) = Gather.map(items, concurrency: concurrency, &block)

    # Runs all at once and takes the first value; the others are cancelled.
    #
    # @param callables [Array<#call>] one or more
    # @return the first value
    # @raise if all failed, the first error
    # @scheduling may wait
    def first(*callables) = Gather.first(callables)

    # Runs the block in a forked child, for computing: other fibers go on, on another core.
    #
    # @return the block's value, by Marshal
    # @raise what the block raised, by Marshal
    # @scheduling always waits
    def in_process(&block) = ForkedWorker.run(&block)

    # Runs the block; raises Timeout::Error in it when it waits past the deadline. Nests; a
    # `rescue => e` inside the block does not catch it. Outside a loop it is Timeout.timeout.
    #
    # @param seconds [Numeric, nil] > 0; nil or 0: no limit
    # @param error [Class, Exception, nil] what to raise instead
    # @param message [String, nil]
    # @yield [seconds]
    # @return the block's value
    # @raise [Timeout::Error] or `error`
    # @scheduling may wait
    def timeout(seconds, error = nil, message = nil, &block)
      Timeout.timeout(seconds, *error, *message, &block)
    end

    # Runs the block on a native thread while other fibers go on: for C code that blocks and
    # releases the GVL. At most 32 at a time; more queue.
    #
    # @return the block's value
    # @raise whatever the block raised
    # @scheduling always waits
    # @thread any
    def offload(&block) = Offload.default.call(&block)

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
    def await(&block) = Await.call(&block)

    # Runs the block as plain blocking Ruby: the whole thread waits.
    #
    # @return the block's value
    # @scheduling never waits for other fibers
    def blocking(&block)
      return Fiber.blocking(&block) if Fiber.respond_to?(:blocking)

      Fiber.current.blocking? ? yield : Fiber.new(blocking: true, &block).resume
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

    # Prints {NB.dump} to stderr whenever the process gets the signal.
    #
    # @param signal [String, Symbol, Integer] as for Kernel#trap
    # @return [void]
    def dump_on(signal)
      trap(signal) { warn(NB.dump || "no loop runs on this thread") }
    end
  end
end

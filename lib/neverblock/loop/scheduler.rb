# frozen_string_literal: true

require_relative "../error_report"
require_relative "../native"
require_relative "fork"
require_relative "operations"
require_relative "overtime"
require_relative "repairs"
require_relative "virtual_time"
require_relative "watchdog"

module NB
  # The loop as Ruby sees it: a Fiber::Scheduler. The hooks are C (ext/neverblock/hooks); this file
  # has what need not be fast: opening, closing, reporting.
  #
  # Most programs use {NB.run} and never name this class. Use it to run a thread under the loop by
  # hand:
  #
  # @example
  #   Thread.new do
  #     Fiber.set_scheduler(NB::Scheduler.new)
  #     Fiber.schedule { sleep 1 }
  #     Fiber.schedule { sleep 1 }
  #   end.join # after one second
  #
  # @see https://docs.ruby-lang.org/en/3.4/Fiber/Scheduler.html
  class Scheduler
    include Operations

    NATIVE_IDS = Thread.method_defined?(:native_thread_id) # not on every system
    private_constant :NATIVE_IDS

    @opening = []
    @left = []

    class << self
      # @return [Array<Proc>] called before each loop opens
      # @api private
      attr_reader :opening

      # @return [Array<Fiber>] that went on, whatever told them to end
      # @api private
      attr_reader :left

      # Registers a block that is called before each loop opens.
      #
      # @return [void]
      # @api private
      def before_open(&block) = @opening << block

      # Checks NB_BACKEND, NB_REPAIRS and NB_WATCHDOG before there is a loop.
      #
      # @param backend [Symbol, String, nil] as for {#initialize}
      # @return [void]
      # @raise [ArgumentError] if a loop would refuse one of them
      # @api private
      def check(backend = nil)
        Watchdog.limit
        Repairs.allowed?
        name = backend_name(backend)
        refuse(name) unless Native.backends.include?(name)
      end

      # @param asked [Symbol, String, nil]
      # @return [String] that name, or else NB_BACKEND's, or else the best available
      # @api private
      def backend_name(asked) = (asked || Native::DEFAULT_BACKEND || Native.backends.first).to_s

      # @param name [String]
      # @raise [ArgumentError] always
      # @api private
      def refuse(name)
        raise ArgumentError, "backend: must be one of #{Native.backends.join(", ")} (also by " \
                             "NB_BACKEND), got: #{name.inspect}"
      end
    end

    # @return [Fiber, nil] the fiber of {NB.run}'s block, which continues the thread's own code
    # @api private
    attr_accessor :thread_fiber

    # @param backend [Symbol, String, nil] epoll, kqueue or poll; nil: NB_BACKEND, or the best
    # @param repairs [Boolean] whether to repair Ruby's own defects in this process ({Repairs})
    # @param clock [Symbol] :real, or :virtual for tests; see {NB.run}
    # @raise [ArgumentError] for a backend that this build does not have, or another clock
    # @raise [SystemCallError] if the kernel has no fds left
    # @raise [Ractor::IsolationError] outside the main Ractor
    # @scheduling never waits
    def initialize(backend: nil, repairs: true, clock: :real)
      refuse_ractor unless Repairs.main?
      @pid = Process.pid
      virtual = VirtualTime.asked?(clock)
      Repairs.install if repairs
      Scheduler.opening.each(&:call)
      Watchdog.start
      name = Scheduler.backend_name(backend)
      return (use_virtual_time if virtual) if open(name)

      Scheduler.refuse(name)
    end

    # Runs every fiber to its end, cancels those that only wait for work, and frees the kernel's
    # resources. Ruby calls it at the end of the thread and for `Fiber.set_scheduler(nil)`. If an
    # exception or a Thread#kill comes in between, or an exception ends a forked child, the
    # remaining fibers are cancelled first.
    #
    # @return [void]
    # @raise [FiberError] in a fiber of the loop, while {NB.run} or {#run} waits for it
    # @scheduling always waits
    def close
      return if closed? || !mine? # a second thread that got it by mistake ends; the first continues

      refuse_close
      begin
        begin
          keep_value
          run unless cut_off?
        ensure
          cancel_all
        end
      ensure
        release
      end
    end

    # Raises NB::Cancelled in every other fiber and waits until all have ended.
    #
    # @return [void]
    # @scheduling always waits
    def cancel_all
      2.times do |round| # the first time, a pooled fiber may have been between two jobs
        end_fibers("the loop is closing", again: round == 1)
        self.yield # `run` would not wait for those in #idle
        insist { run }
      end
    end

    # Seconds until a fiber that has rescued NB::Cancelled, and goes on, gets the next one; and how
    # often. Then the loop ends without it.
    INSIST_SECONDS, INSIST_TIMES = 1, 3
    private_constant :INSIST_SECONDS, :INSIST_TIMES

    # @return [Boolean] whether all fibers are to end
    # @api private
    def ending? = @ending ? true : false

    # @return [Boolean] whether the fiber is to end because the loop ends
    # @api private
    def told?(fiber) = @told&.key?(fiber) ? true : false

    # @return [String]
    def inspect
      return "#<#{self.class} closed>" if closed?

      counts = stats
      "#<#{self.class} #{counts[:backend]}, #{counts[:fibers]} fibers, #{counts[:parked]} waiting>"
    end
    alias to_s inspect

    private

    # Raises NB::Cancelled in every other fiber, because the loop ends.
    #
    # Each fiber is its own value: until Ruby 3.2, compaction crashes if 30 keys of a WeakMap share
    # one (https://bugs.ruby-lang.org/issues/19529).
    #
    # @param again [Boolean] whether also in those that have got one here: a second one breaks off
    #   what their `ensure` blocks wait for
    def end_fibers(message, again: false)
      @ending = true
      @told = ObjectSpace::WeakMap.new if again || !@told
      Scheduler.left.each { |one| @told[one] = one }
      interrupt_all(Cancelled, message, @told)
    end

    # The same in a fiber that ends or rests next, where somebody waits until the others have ended.
    def end_others(message, again: false)
      end_fibers(message, again: again)
      start_insisting if stats[:fibers] > 1
    end

    # Runs the block, which waits until the told fibers have ended. Not in a forked child, where
    # there may be no fiber left to which a new one could return.
    def insist
      return yield if stats[:fibers].zero? || @pid != Process.pid

      insisting = start_insisting
      begin
        yield
      ensure
        fiber_interrupt(insisting, Cancelled.new("the loop has closed")) if insisting.alive?
        self.yield
      end
    end

    # @return [Fiber] that keeps no loop from ending
    def start_insisting = fiber { idle { tell_again } }

    # Those in an `ensure`, a `rescue` or a shield are left to finish it, however long that takes.
    def tell_again
      INSIST_TIMES.times do
        sleep(INSIST_SECONDS)
        swallowers.each { |one| fiber_interrupt(one, Cancelled.new("the loop is closing")) }
      end
      sleep(INSIST_SECONDS)
      swallowers.each { |one| leave_behind(one) }
    end

    def swallowers = going_on(@told) - Scheduler.left

    # It stays in memory, for a queue or a lock may point to its stack.
    def leave_behind(fiber)
      Scheduler.left << fiber
      owner = waits.find { |wait| wait.values_at(:fiber, :owner).include?(fiber) }&.fetch(:owner)
      lead(nil) # of the thread's own code, `idle` would change nothing
      idle_begin(owner) if owner
      ErrorReport.tell("NeverBlock: the loop ends without a fiber that has rescued NB::Cancelled " \
                       "#{INSIST_TIMES + 1} times and goes on: " \
                       "#{Dump.place(fiber.backtrace.to_a)}\n")
    end

    def refuse_ractor
      raise Ractor::IsolationError, "a loop runs only in the main Ractor; for other cores, call " \
                                    "NB.in_process { } or use NB::ProcessPool"
    end

    # An exception that ended a fiber and that nobody waits for: reported as by
    # Thread#report_on_exception.
    def report(error)
      return if error.is_a?(Cancelled)

      ErrorReport.write("#{Fiber.current.inspect} terminated with exception", error)
    end

    # Ruby code that reads the time must get the loop's time.
    def use_virtual_time
      VirtualTime.install
      use_virtual_clock
    end

    # Whether another thread could write to a socket of this process soon: it runs, or waits for
    # something that may come at any time. An offload thread that waits does not count, because
    # somebody waits for its work anyway.
    def threads_may_write?
      writers = other_threads.reject do |thread|
        sleeps_forever?(thread) || (thread.name == Offload::NAME && thread.status != "run")
      end
      (@real_time ||= VirtualTime::Real.new).goes(writers)
    end

    # Whether another thread runs, and so may leave a lock or push to a queue soon.
    def threads_run?
      running = other_threads.select { |thread| thread.status == "run" }
      (@real_time ||= VirtualTime::Real.new).goes(running)
    end

    # The number of other threads, if all of them sleep until somebody wakes them; otherwise nil.
    def threads_asleep
      others = other_threads
      others.size if others.all? { |thread| sleeps_forever?(thread) }
    end

    def other_threads = Thread.list - [Thread.current, Overtime.thread]

    # Of a thread that waits without a native one (RUBY_MN_THREADS=1), Ruby says so also if it waits
    # for a time or an IO.
    def sleeps_forever?(thread)
      thread.inspect.include?("sleep_forever") &&
        !(NATIVE_IDS && thread.native_thread_id.nil?)
    end

    def deadlock_error
      dump = Dump.new(self)
      DeadlockError.new("every fiber waits for another, and nothing is left that could wake " \
                        "one:\n  #{dump.places.join("\n  ")}\n#{dump}")
    end
  end
end

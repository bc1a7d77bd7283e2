# frozen_string_literal: true

require_relative "../native"
require_relative "fork"
require_relative "operations"
require_relative "overtime"
require_relative "repairs"
require_relative "virtual_time"
require_relative "watchdog"

module NB
  # What Ruby sees of the loop: a Fiber::Scheduler. The hooks are C (ext/neverblock/hooks); here is
  # what is not hot: opening, closing, reporting.
  #
  # Most programs never name it and use {NB.run}. Use it to put a thread under the loop by hand:
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

    @opening = []

    class << self
      # @return [Array<Proc>] what is called before each loop opens
      # @api private
      attr_reader :opening

      # Has the block called before each loop opens.
      #
      # @return [void]
      # @api private
      def before_open(&block) = @opening << block

      # Looks at NB_BACKEND, NB_REPAIRS and NB_WATCHDOG before there is a loop.
      #
      # @param backend [Symbol, String, nil] as {#initialize} takes it
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
      # @return [String] that name, else NB_BACKEND's, else the best that there is
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

    # @return [Fiber, nil] that of {NB.run}'s block, which goes on for the thread's own code
    # @api private
    attr_accessor :thread_fiber

    # @param backend [Symbol, String, nil] epoll, kqueue or poll; nil: NB_BACKEND, or the best
    # @param repairs [Boolean] whether Ruby's own holes may be mended in this process ({Repairs})
    # @param clock [Symbol] :real, or :virtual for tests; see {NB.run}
    # @raise [ArgumentError] for a backend that this build does not have, or another clock
    # @raise [SystemCallError] when the kernel has no fds left
    # @scheduling never waits
    def initialize(backend: nil, repairs: true, clock: :real)
      virtual = VirtualTime.asked?(clock)
      Repairs.install if repairs
      Scheduler.opening.each(&:call)
      Watchdog.start
      name = Scheduler.backend_name(backend)
      return (use_virtual_time if virtual) if open(name)

      Scheduler.refuse(name)
    end

    # Runs every fiber to its end, cancels those that only wait for work, frees the kernel's side.
    # Ruby calls it at the end of the thread and for `Fiber.set_scheduler(nil)`. When an exception
    # or a Thread#kill comes in between, the others are cancelled first.
    #
    # @return [void]
    # @raise [FiberError] in a fiber of the loop, while {NB.run} or {#run} waits for it
    # @scheduling always waits
    def close
      return if closed? || !mine? # a second thread that got it by mistake ends; the first goes on

      refuse_close
      begin
        begin
          keep_value
          run
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
      2.times do # a pooled fiber may have been between two jobs the first time
        interrupt_all(Cancelled, "the loop is closing")
        self.yield # `run` would not wait for those in #idle
        run
      end
    end

    # @return [String]
    def inspect
      return "#<#{self.class} closed>" if closed?

      counts = stats
      "#<#{self.class} #{counts[:backend]}, #{counts[:fibers]} fibers, #{counts[:parked]} waiting>"
    end
    alias to_s inspect

    private

    # An exception that ended a fiber and has nobody to go to: as Thread#report_on_exception.
    def report(error)
      return if error.is_a?(Cancelled)

      warn("#{Fiber.current.inspect} terminated with exception:\n#{error.full_message}")
    end

    # What reads the time in Ruby shall read the loop's.
    def use_virtual_time
      VirtualTime.install
      use_virtual_clock
    end

    # Whether another thread could be about to write to a socket of this process: it runs, or waits
    # for what may come at any time. For the work of offload threads somebody waits anyway.
    def threads_may_write?
      writers = other_threads.reject do |thread|
        thread.name == Offload::NAME || sleeps_forever?(thread)
      end
      (@real_time ||= VirtualTime::Real.new).goes(writers)
    end

    # How many other threads there are, if all of them sleep until somebody wakes them; else nil.
    def threads_asleep
      others = other_threads
      others.size if others.all? { |thread| sleeps_forever?(thread) }
    end

    def other_threads = Thread.list - [Thread.current, Overtime.thread]
    def sleeps_forever?(thread) = thread.inspect.include?("sleep_forever")

    def deadlock_error
      dump = Dump.new(self)
      DeadlockError.new("every fiber waits for another, and nothing is left that could wake " \
                        "one:\n  #{dump.places.join("\n  ")}\n#{dump}")
    end
  end
end

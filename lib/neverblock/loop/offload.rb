# frozen_string_literal: true

require_relative "../errors"
require_relative "../fiber_state"
require_relative "../native"

module NB
  # A bounded pool of native threads for Ruby code that blocks and cannot be made to wait in the
  # loop: a C library that knows no scheduler, a slow disk. It helps only if the code releases the
  # GVL; computing belongs in {NB.in_process}.
  #
  # If all threads are busy, work that itself offloads work gets a thread beyond the limit. So does
  # urgent work, which is what the threads may be waiting for. While some of it is in the queue, one
  # more thread is on its way, not one for each: what waits for nothing itself takes few threads.
  #
  # Threads start when work waits, and end after {IDLE_SECONDS} without work. A block has a copy of
  # its caller's fiber storage (`Fiber[:x]`, from Ruby 3.2 on). Otherwise it finds its thread like a
  # new one: without the locals, variables, name and priority of the block before it, and without
  # the caller's masks (Thread.handle_interrupt).
  #
  # @example
  #   NB.offload { Etc.getpwnam("root") }
  class Offload
    # Threads end after this many seconds without work.
    IDLE_SECONDS = 5

    # The name of the threads.
    # @api private
    NAME = "neverblock offload"

    # Closed when a thread has done the work. A class of its own, because a virtual clock follows
    # real time while a fiber waits for one (ext/neverblock/loop/virtual.c).
    # @api private
    Done = Class.new(Thread::Queue)

    # One block, to be run by a thread.
    class Job
      def initialize(block)
        @block = block
        @storage = FiberState.storage
        @done = Done.new
      end

      # Called by the thread.
      def run
        FiberState.inherit(@storage) if @storage
        @value = @block.call
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by #value
        @error = error
        @raised_here = error.backtrace&.last == caller.last # otherwise it has been raised before
      ensure
        @done.close
      end

      # Called in place of {#run} if no thread can run it.
      def fail(error)
        @error = error
        @done.close
      end

      # @return [Boolean]
      def done? = @done.closed?

      # @return [void]
      # @scheduling may wait
      def wait
        @done.pop
        nil
      end

      # Ends the wait of an interrupted fiber, but never before the block has ended: what interrupts
      # meanwhile goes on afterwards. Not `rescue`: Fiber#kill is no exception, and comes back at
      # each wait.
      #
      # @param cut [Proc, nil] makes the block end early; called once, in the interrupted fiber
      # @return [void]
      # @scheduling may wait
      def outlast(cut = nil)
        cut&.call
      ensure
        Native.outlast(self)
      end

      # @return [Object] the block's value
      # @raise whatever the block raised, with the thread's backtrace in front of the caller's
      # @scheduling may wait
      def value
        wait
        raise complete(@error) if @error

        @value
      end

      private

      def complete(error)
        return error if error.frozen? || !@raised_here

        @raised_here = false
        inner = error.backtrace_locations if RUBY_VERSION >= "3.4" # set_backtrace takes these, too
        error.set_backtrace(inner ? inner + caller_locations(2) : error.backtrace + caller(2))
        error
      end
    end

    class << self
      # @return [Offload] the pool of this process; a forked child makes a new one
      def default
        @default = nil unless @pid == Process.pid
        @pid = Process.pid
        @default ||= new
      end
    end

    # @return [Integer] the maximum number of threads
    attr_reader :size

    # @param size [Integer] the maximum number of threads, 1 or more
    # @raise [ArgumentError]
    def initialize(size: 32)
      raise ArgumentError, "size: must be an Integer of 1 or more, got: #{size.inspect}" unless
        size.is_a?(Integer) && size.positive?

      @size = size
      @lock = Thread::Mutex.new
      @jobs = []
      @urgent = [] # those that come first
      @came = Thread::ConditionVariable.new
      @threads = @idle = 0
      @starting = {}.compare_by_identity # threads that have not asked for a job yet
    end

    # Runs the block on a thread.
    #
    # @param urgent [Boolean] before all that waits for a thread
    # @return [Job] at once
    # @raise [ThreadError] if the system has no room for the first thread, or for an urgent one
    # @scheduling never waits
    # @thread any
    def start(urgent: false, &block)
      raise ArgumentError, "offloading needs a block" unless block

      job = Job.new(block)
      @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) do # so that every thread made is counted
          first = urgent || nested?
          add_thread(urgent) if queued >= @idle && (first ? @starting.empty? : @threads < @size)
          (first ? @urgent : @jobs).push(job)
          @came.signal
        end
      end
      job
    end

    # Runs the block, and never ends before it has ended, whatever interrupts. A timeout may strike
    # at each step, so what strikes when the job has just been started waits for its end, too.
    #
    # @param cut [Proc, nil] makes the block end early, after an interrupt; called in this fiber
    # @param urgent [Boolean] see {#start}
    # @return [Job] that has ended
    # @raise [ThreadError] as {#start}
    # @scheduling always waits
    # @thread any
    def outlast(cut = nil, urgent: false, &block)
      job = nil
      Thread.handle_interrupt(UNINTERRUPTED) { job = start(urgent: urgent, &block) }
      job.wait
      job
    ensure
      job.outlast(cut) unless job.nil? || job.done?
    end

    # Runs the block on a thread while other fibers run. Queues if all threads are busy. If the
    # calling fiber is cancelled meanwhile, the block runs to its end and its value is dropped.
    #
    # @return the block's value
    # @raise whatever the block raised
    # @scheduling always waits
    # @thread any
    def call(&block) = start(&block).value

    # The same before all that waits for a thread, and beyond the limit: for Ruby's own methods. All
    # threads may be busy with blocks of the program that wait for what the caller does next.
    #
    # @api private
    def call_first(&block)
      job = begin
        start(urgent: true, &block)
      rescue ThreadError # the threads that there are
        start(&block)
      end
      job.value
    end

    # @return [Hash{Symbol => Integer}] :size, :threads, :busy, :queued
    # @thread any
    def stats
      @lock.synchronize do
        { size: @size, threads: @threads, busy: @threads - @idle, queued: queued }
      end
    end

    private

    def queued = @urgent.size + @jobs.size

    # Whether the caller is offloaded work itself. Its thread does no other work while it waits for
    # this; if all threads waited that way, nothing would ever run.
    def nested? = Thread.current.name == NAME

    # If the system has no room for another thread, the existing ones do the work.
    def add_thread(urgent = false)
      thread = Thread.new do
        FiberState.clear
        Thread.handle_interrupt(Object => :immediate) { work }
      ensure
        leave
      end
      thread.name = NAME
      @starting[thread] = true
      @threads += 1
    rescue ThreadError
      raise if urgent || @threads.zero?
    end

    # Others must do the work that is left.
    def leave
      @lock.synchronize do
        @threads -= 1
        @starting.delete(Thread.current)
        add_thread if queued.positive? && @idle.zero?
      rescue ThreadError => error
        take.fail(error) until queued.zero?
      end
    end

    # An idle thread must not keep its last block's objects from being collected.
    def work
      thread = Thread.current
      while (job = next_job)
        job.run
        job = nil # rubocop:disable Lint/UselessAssignment
        FiberState.clear
        break unless like_new?(thread)
      end
    end

    # If something cannot be reset for certain, a new thread replaces this one.
    def like_new?(thread)
      thread.name == NAME && thread.priority.zero? && $?.nil? && !thread.abort_on_exception &&
        thread.report_on_exception == Thread.report_on_exception &&
        thread.thread_variables.empty? && thread.instance_variables.empty?
    end

    def next_job
      @lock.synchronize do
        @starting.delete(Thread.current)
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + IDLE_SECONDS
        while queued.zero?
          left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          return if left <= 0

          @idle += 1
          begin
            @came.wait(@lock, left)
          ensure
            @idle -= 1
          end
        end
        take.tap { call_next }
      end
    end

    def take = @urgent.shift || @jobs.shift

    # This thread may be away for long: another one comes for what is left, if it may.
    def call_next
      return unless @idle.zero? && @starting.empty?
      return unless @urgent.any? || (@jobs.any? && @threads < @size)

      Thread.handle_interrupt(UNINTERRUPTED) { add_thread }
    end
  end
end

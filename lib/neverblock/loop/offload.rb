# frozen_string_literal: true

require_relative "../errors"
require_relative "../fiber_state"

module NB
  # A bounded pool of native threads for Ruby code that blocks and cannot be made to wait: a C
  # library that knows no scheduler, a slow disk. It helps only where the code releases the GVL;
  # computing belongs into {NB.in_process}.
  #
  # Work that offloads work gets a thread beyond the bound, if all are taken.
  #
  # Threads start when work waits and end after {IDLE_SECONDS} without any. A block has a copy of
  # its caller's fiber storage (`Fiber[:x]`, from Ruby 3.2 on), and for the rest finds its thread as
  # a new one would be: of the block before it there are no locals, no variables, no name, no
  # priority; and of the caller no masks (Thread.handle_interrupt).
  #
  # @example
  #   NB.offload { Etc.getpwnam("root") }
  class Offload
    # Threads end after this many seconds without work.
    IDLE_SECONDS = 5

    # Of the threads.
    # @api private
    NAME = "neverblock offload"

    # Closed when a thread has done the work. A class of its own, because a virtual clock stands
    # still for it (ext/neverblock/loop/virtual.c).
    # @api private
    Done = Class.new(Thread::Queue)

    # One block on its way through a thread.
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
      ensure
        @done.close
      end

      # Instead of {#run}, where no thread can.
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

      # @return [Object] the block's value
      # @raise whatever the block raised
      # @scheduling may wait
      def value
        wait
        raise @error if @error

        @value
      end
    end

    class << self
      # @return [Offload] the process's pool, made anew in a forked child
      def default
        @default = nil unless @pid == Process.pid
        @pid = Process.pid
        @default ||= new
      end
    end

    # @return [Integer] the most threads at a time
    attr_reader :size

    # @param size [Integer] the most threads, 1 or more
    # @raise [ArgumentError]
    def initialize(size: 32)
      raise ArgumentError, "size: must be an Integer of 1 or more, got: #{size.inspect}" unless
        size.is_a?(Integer) && size.positive?

      @size = size
      @lock = Thread::Mutex.new
      @jobs = []
      @came = Thread::ConditionVariable.new
      @threads = @idle = 0
    end

    # Runs the block on a thread.
    #
    # @return [Job] at once
    # @raise [ThreadError] when the system has no room for the first thread
    # @scheduling never waits
    # @thread any
    def start(&block)
      raise ArgumentError, "offloading needs a block" unless block

      job = Job.new(block)
      @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) do # a thread that was made is counted
          add_thread if @jobs.size >= @idle && (@threads < @size || nested?)
          @jobs << job
          @came.signal
        end
      end
      job
    end

    # Runs the block on a thread while other fibers go on. Queues when all are busy. When the
    # calling fiber is cancelled meanwhile, the block runs to its end and its value is dropped.
    #
    # @return the block's value
    # @raise whatever the block raised
    # @scheduling always waits
    # @thread any
    def call(&block) = start(&block).value

    # @return [Hash{Symbol => Integer}] :size, :threads, :busy, :queued
    # @thread any
    def stats
      @lock.synchronize do
        { size: @size, threads: @threads, busy: @threads - @idle, queued: @jobs.size }
      end
    end

    private

    # Whether the caller is offloaded work itself: its thread does no other work while it waits for
    # this, and with all of them waiting none would be left, for ever.
    def nested? = Thread.current.name == NAME

    # Where the system has no room for a further thread, those that there are do the work.
    def add_thread
      thread = Thread.new do
        FiberState.clear
        Thread.handle_interrupt(Object => :immediate) { work }
      ensure
        leave
      end
      thread.name = NAME
      @threads += 1
    rescue ThreadError
      raise if @threads.zero?
    end

    # The work that is left has to be done by others.
    def leave
      @lock.synchronize do
        @threads -= 1
        add_thread if @jobs.any? && @idle.zero?
      rescue ThreadError => error
        @jobs.shift.fail(error) until @jobs.empty?
      end
    end

    # An idle thread must not keep what its last block used from being collected.
    def work
      thread = Thread.current
      while (job = next_job)
        job.run
        job = nil # rubocop:disable Lint/UselessAssignment
        FiberState.clear
        break unless like_new?(thread)
      end
    end

    # What cannot be taken back for certain is left to a new thread.
    def like_new?(thread)
      thread.name == NAME && thread.priority.zero? && !thread.abort_on_exception &&
        thread.report_on_exception == Thread.report_on_exception &&
        thread.thread_variables.empty? && thread.instance_variables.empty?
    end

    def next_job
      @lock.synchronize do
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + IDLE_SECONDS
        while @jobs.empty?
          left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          return if left <= 0

          @idle += 1
          begin
            @came.wait(@lock, left)
          ensure
            @idle -= 1
          end
        end
        @jobs.shift
      end
    end
  end
end

# frozen_string_literal: true

module NB
  # A bounded pool of native threads for Ruby code that blocks and cannot be made to wait: a C
  # library that knows no scheduler, a slow disk. It helps only where the code releases the GVL;
  # computing belongs into {NB.in_process}.
  #
  # Threads start when work waits and end after {IDLE_SECONDS} without any.
  #
  # @example
  #   NB.offload { Etc.getpwnam("root") }
  class Offload
    # Threads end after this many seconds without work.
    IDLE_SECONDS = 5

    # One block on its way through a thread.
    class Job
      def initialize(block)
        @block = block
        @done = Thread::Queue.new
      end

      # Called by the thread.
      def run
        @value = @block.call
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by #value
        @error = error
      ensure
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
    # @scheduling never waits
    # @thread any
    def start(&block)
      job = Job.new(block)
      @lock.synchronize do
        @jobs << job
        if @jobs.size > @idle && @threads < @size
          @threads += 1
          Thread.new { work }.name = "neverblock offload"
        end
        @came.signal
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

    # An idle thread must not keep what its last block used from being collected.
    def work
      while (job = next_job)
        job.run
        job = nil # rubocop:disable Lint/UselessAssignment
      end
    end

    def next_job
      @lock.synchronize do
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + IDLE_SECONDS
        while @jobs.empty?
          left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          if left <= 0
            @threads -= 1
            return nil
          end
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

# frozen_string_literal: true

require_relative "../error_report"

module NB
  module Rails
    # The jobs that are to run later in one loop. One fiber waits for all of them, as one thread
    # does without a loop. A fiber for each would cost some 20 kB, and two of the system's memory
    # mappings.
    class DelayedJobs
      # @yieldparam job [Object] when its time has come
      def initialize(&due)
        @due = due
        @jobs = [] # [time, job] each; the next one is the last
        @lock = Thread::Mutex.new
        @sooner = Thread::ConditionVariable.new
      end

      # @param delay [Numeric] seconds
      # @param job [Object]
      # @return [void]
      # @scheduling never waits
      def add(delay, job)
        here = @fiber&.alive? && @pid == Process.pid
        @jobs.clear unless here # those of a loop that has ended, or of the parent process
        next_one = insert(now + delay, job)
        return start unless here

        @sooner.signal if next_one
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # @return [Boolean] whether it is the next one
      def insert(time, job)
        place = @jobs.bsearch_index { |other, _| other <= time } || @jobs.size
        @jobs.insert(place, [time, job])
        place == @jobs.size - 1
      end

      def start
        @pid = Process.pid
        @fiber = Fiber.schedule { work }
      end

      def work
        while (time, = @jobs.last)
          time > now ? wait(time - now) : begin_job(@jobs.pop.last)
        end
      end

      # The others are still to come.
      def begin_job(job)
        @due.call(job)
      rescue StandardError, SystemExit => error
        ErrorReport.write("neverblock: a delayed job of Active Job's :async did not begin", error)
      end

      # As with threads, the program does not wait for it.
      def wait(delay)
        Fiber.scheduler.idle { @lock.synchronize { @sooner.wait(@lock, delay) } }
      end
    end
  end
end

# frozen_string_literal: true

require "neverblock"

module NB
  # A loop for one test, with a record of what its tasks did that no assertion sees.
  # `neverblock/minitest` and `neverblock/rspec` share this class.
  #
  # @api private
  class TestLoop
    # A problem with a task; its backtrace begins at the place to look at.
    class Problem < ::StandardError
      # @param task [Task] that failed
      # @return [Problem]
      def self.failed(task)
        error = task.error
        problem = new("#{task.inspect} ended with an exception that nobody waited for: " \
                      "#{error.class} (#{error.message})")
        problem.tap { |one| one.set_backtrace(error.backtrace) }
      end

      # @param task [Task] that has not ended
      # @return [Problem]
      def self.left(task)
        problem = new("#{task.inspect} was left behind at the end of the test: wait for it, " \
                      "cancel it, or start it with background: true")
        problem.tap { |one| one.set_backtrace([task.__send__(:place)].compact) }
      end
    end

    # Included in every task once a test framework is loaded.
    module Noted
      # The same as {Task#wait}.
      def wait(...)
        super
      ensure
        TestLoop.of(@scheduler)&.seen(self) unless alive?
      end

      # The same as {Task#report}.
      def report(...)
        TestLoop.of(@scheduler)&.reported(self)
        super
      end

      private

      def launch
        TestLoop.of(@scheduler)&.started(self)
        super
      end

      def fail_with(error)
        super
        TestLoop.of(@scheduler)&.failed(self) unless @expected
      end

      def finish(...)
        super
        TestLoop.of(@scheduler)&.ended(self)
      end
    end
    Task.prepend(Noted)

    @loops = {}.compare_by_identity

    class << self
      # @param scheduler [Scheduler]
      # @return [TestLoop, nil] of the test that this loop runs
      def of(scheduler) = @loops[scheduler]

      # Runs a test, cancels what it left behind, and returns when everything has ended.
      #
      # @param clock [Symbol] as for {NB.run}
      # @yield the test, with its setup and teardown
      # @yieldreturn [Boolean] whether it passed; after a failure, leftovers are expected
      # @return [Array<Problem>]
      # @scheduling always waits
      def run(clock:)
        problems = scheduler = tasks = nil
        NB.run(clock: clock) do
          scheduler = Fiber.scheduler
          tasks = @loops[scheduler] = new
          begin
            passed = yield
          ensure
            problems = tasks.close(passed)
          end
        end
        problems
      ensure
        @loops.delete(scheduler)
        tasks&.forget
      end
    end

    def initialize
      @tasks = {}.compare_by_identity
      @failed = {}.compare_by_identity
      @reported = []
    end

    # Called by tasks.
    # @return [void]
    def started(task) = @tasks[task] = true

    # @return [void]
    def ended(task) = @tasks.delete(task)

    # @return [void]
    def failed(task) = @failed[task] = true

    # @return [void]
    def seen(task) = @failed.delete(task)

    # @return [void]
    def reported(task) = @reported << task

    # Called when the loop has ended. {NB.dump} in a later test must not list this test's tasks, nor
    # those that failed at its very end.
    # @return [void]
    def forget = @reported.each { |task| Task.seen(task) }

    # @return [Array<Problem>]
    # @scheduling always waits
    def close(passed)
      sleep(0) # lets cancelled tasks end
      left = @tasks.keys.reject(&:background?)
      left.each(&:cancel)
      @failed.keys.map { |task| Problem.failed(task) } +
        (passed ? left.map { |task| Problem.left(task) } : [])
    end
  end
end

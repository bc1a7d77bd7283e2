# frozen_string_literal: true

require "forwardable"
require_relative "../../sync/inheritance"
require_relative "../../sync/interruption"
require_relative "../../sync/task"

module NB
  module Drivers
    module Async
      # The root of Async's task tree in one of our loops; Async::Task#reactor returns it.
      class Root < ::Async::Node
        extend Forwardable

        # What a fiber in {#transfer} waits for, as {NB.dump} shows it.
        TRANSFER = :"async transfer"

        # @param scheduler [NB::Scheduler]
        # @return [Root] of this loop; a forked child makes a new one
        def self.of(scheduler)
          root = scheduler.instance_variable_get(:@neverblock_async)
          return root if root && root.forks == Task.forks

          scheduler.instance_variable_set(:@neverblock_async, new(scheduler))
        end

        def_delegators :@scheduler, :block, :unblock, :yield, :closed?, :timeout_after
        public :add_child, :remove_child, :sleep

        # @return [Integer] see {Task.forks}
        attr_reader :forks

        def initialize(scheduler)
          super(nil)
          @scheduler = scheduler
          @forks = Task.forks
          @values = {}.compare_by_identity # fiber in #transfer => the value it was woken with
          @resting = {}.compare_by_identity # task with a fiber of its own => the loop may end
          @fiber_of = {}.compare_by_identity # such a task => its fiber
          @syncs = {}.compare_by_identity # fiber in #sync => what was raised in it
        end

        # Runs the block as a task, in this fiber.
        #
        # @yieldparam task [Async::Task]
        # @return the block's value; nil when the task was stopped
        # @scheduling may wait
        def sync(annotation, &block)
          return NB.run { sync(annotation, &block) } unless ::Fiber.current_scheduler

          fiber = ::Fiber.current
          before = fiber.annotation
          task = ::Async::Task.new(self, annotation: annotation, finished: false, &block)
          begin
            run_here(task, fiber)
          ensure
            fiber.annotate(before)
            fiber.async_task = nil
          end
        end

        # The fiber for a task.
        #
        # @return [Fiber] of this loop, not begun; in {#sync} the current one
        def new_fiber(annotation, body)
          if @here
            fiber = ::Fiber.current
            @here = nil
            @body = body
          else
            fiber = @scheduler.__send__(:new_fiber, &body)
          end
          fiber.annotate(annotation) if annotation
          fiber
        end

        # @return [Proc] the block in the form that a task's fiber runs
        def carry(task, block)
          return block if @here

          own = Inheritance.none? ? block : Inheritance.wrap(block, apart: true)
          -> { run_task(task, own) }
        end

        # Marks a transient task, which does not keep the loop running. A task that has not begun or
        # has ended is left out, and so is that of {#sync}, which is part of its caller.
        #
        # @return [void]
        def resting(task, transient)
          rest(task, transient ? true : false) if @resting.key?(task) && @forks == Task.forks
        end

        # Works like Async::Scheduler's method.
        # @scheduling always waits
        def transfer
          @scheduler.block(TRANSFER, nil)
          @values[::Fiber.current]
        ensure
          @values.delete(::Fiber.current) unless @values.empty?
        end

        # Works like Async::Scheduler's method.
        # @scheduling may wait
        def resume(fiber, *values)
          return fiber.transfer(*values) unless fiber.is_a?(::Fiber)
          return begin_here if fiber.equal?(::Fiber.current)
          return unless fiber.alive?

          within = @scheduler.__send__(:waiting_within?, fiber)
          return enter(fiber) unless within

          @values[fiber] = values.first if values.any?
          @scheduler.unblock(TRANSFER, fiber) # in a fiber that it resumed, that waits on
          @scheduler.__send__(:give_way, fiber)
        end

        # Works like Async::Scheduler's method.
        # @scheduling never waits
        def push(target)
          return @scheduler.unblock(TRANSFER, target) if target.is_a?(::Fiber)

          @scheduler.fiber do
            @scheduler.yield
            target.transfer if target.alive?
          end
        end

        # Works like Async::Scheduler's method. A shield, or a lock just won, delays it until the
        # fiber's next wait.
        # @scheduling may wait
        def raise(fiber, *arguments, **options)
          error = exception(*arguments, **options)
          ::Kernel.raise(error) if fiber.equal?(::Fiber.current)

          @syncs[fiber]&.push(error)
          @scheduler.fiber_interrupt(fiber, error)
          @scheduler.__send__(:give_way, fiber)
        end

        # Works like Async::Scheduler's method: ends the block at a wait, never while it computes.
        # Async's own code, as that of its pools, relies on that.
        # @scheduling may wait, as the block does
        def with_timeout(duration, exception = ::Async::TimeoutError,
                         message = "execution expired", &block)
          seconds = Timers.seconds(duration)
          return Timers.limit(seconds, exception.new(message), &block) unless block.arity.zero?

          @scheduler.__send__(:timeout_at_wait, seconds, exception, message) { yield }
        end

        # Works like Async::Scheduler's method.
        # @scheduling never waits, but the block runs until its own first wait
        def async(*arguments, **options, &block)
          task = ::Async::Task.new(::Async::Task.current? || self, **options, &block)
          task.run(*arguments)
          task
        end

        # Async::Scheduler's method runs the loop, which here runs anyway.
        # @return [Async::Task, nil]
        def run(...) = block_given? ? async(...) : nil

        # Works like Async::Scheduler's method: stops all tasks, including transient ones, which a
        # single task's stop spares.
        # @scheduling may wait
        def stop(*arguments, **options)
          children&.each { |task| task.stop(*arguments, **options) }
        end
        alias cancel stop

        # Stops all tasks of the loop.
        # @scheduling may wait
        def close
          terminate
          nil
        end
        alias interrupt close

        # @return [Float] the recent share of time in which this thread computed, 0 to 1
        def load
          now, busy = [Process::CLOCK_MONOTONIC, Process::CLOCK_THREAD_CPUTIME_ID]
                      .map { |clock| Process.clock_gettime(clock) }
          @seen ||= [now, busy]
          if now - @seen.first > 0.01
            @load = ((busy - @seen.last) / (now - @seen.first)).clamp(0.0, 1.0)
            @seen = [now, busy]
          end
          @load || 0.0
        end

        private

        def run_here(task, fiber)
          sent = @syncs[fiber] = []
          @here = true
          task.run
          @syncs.delete(fiber)
          ended = !task.failed? || !Interruption.struck?(task.result)
          task.wait
        ensure
          @syncs.delete(fiber)
          sent.each { |error| Timers.take(error) }
          end_children(task) unless ended
        end

        def begin_here
          body = @body
          @body = nil
          body.call
        end

        # If there was no room, or an exception struck before it began, the task never runs.
        def enter(fiber)
          @scheduler.__send__(:enter, fiber)
        rescue ::Exception # rubocop:disable Lint/RescueException -- raised again
          fiber.async_task&.__send__(:stop!) if fiber.inspect.include?("(created)")
          ::Kernel.raise
        end

        # When the loop cancels the fiber, the task and its children stop.
        def run_task(task, block)
          @fiber_of[task] = ::Fiber.current
          @resting[task] = false
          resting(task, task.transient?)
          block.call
        rescue Cancelled => error
          resting(task, false)
          ::Kernel.raise(::Async::Stop, error.message)
        ensure
          resting(task, false)
          @resting.delete(task)
          @fiber_of.delete(task)
        end

        def rest(task, transient)
          return if @resting[task] == transient

          @resting[task] = transient
          @scheduler.__send__(transient ? :idle_begin : :idle_end, @fiber_of[task])
        end

        def exception(what = ::RuntimeError, *message, cause: nil)
          error = what.is_a?(::String) ? ::RuntimeError.new(what) : what.exception(*message)
          return error unless cause

          begin
            ::Kernel.raise(error, cause: cause) # nothing but `raise` can set a cause
          rescue error.class
            error.set_backtrace(nil)
            error
          end
        end

        # A timeout or a cancel has ended the task, so its children end, too.
        def end_children(task)
          nodes = []
          task.traverse { |node| nodes << node unless node.equal?(task) || node.transient? }
          task.children&.each { |child| child.stop unless child.transient? }
          nodes.each do |node|
            node.wait
          rescue ::StandardError
            nil # async has logged it
          end
        end
      end
    end
  end
end

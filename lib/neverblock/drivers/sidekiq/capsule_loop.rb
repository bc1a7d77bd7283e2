# frozen_string_literal: true

require_relative "../../error_report"
require_relative "processor_fiber"

module NB
  module Drivers
    module Sidekiq
      # The loop of one capsule, on a thread of its own, whose fibers run the processors. It exists
      # only while there are processors.
      class CapsuleLoop
        LOCK = Thread::Mutex.new
        # Seconds until a loop that could not begin is tried again.
        PAUSE = 1
        private_constant :LOCK, :PAUSE
        @all = ObjectSpace::WeakMap.new

        # @param capsule [Sidekiq::Capsule]
        # @return [CapsuleLoop] of this capsule
        # @thread any
        # @api private
        def self.of(capsule) = LOCK.synchronize { @all[capsule] ||= new(capsule) }

        # @api private
        def initialize(capsule)
          @name = "sidekiq.#{capsule.name}/fibers"
          @priority = priority(capsule)
          @lock = Thread::Mutex.new
        end

        # @param fiber [ProcessorFiber]
        # @return [ProcessorFiber] that runs soon, in a fiber of the loop
        # @thread any
        # @api private
        def start(fiber)
          @lock.synchronize do
            @loop ||= start_loop
            @loop.fibers[fiber] = true
            @loop.starts << fiber
          end
          fiber
        end

        private

        # One run of the loop: fibers that have not ended, and the queue of those that have not
        # begun, in which nil ends the loop.
        Loop = Struct.new(:fibers, :starts)
        private_constant :Loop

        # Sidekiq 7 does not have it.
        def priority(capsule)
          return 0 unless capsule.respond_to?(:thread_priority)

          capsule.thread_priority || ::Sidekiq::DEFAULT_THREAD_PRIORITY
        end

        def start_loop
          one = Loop.new({}.compare_by_identity, Thread::Queue.new)
          thread = Thread.new do
            Thread.current.name = @name
            NB.run { work(one) }
          ensure
            broken_off(one)
          end
          thread.priority = @priority
          one
        end

        def work(one)
          while (fiber = next_fiber(one))
            run(one, fiber)
          end
        end

        # What another thread raises in this one (Thread#raise) is meant for one of the jobs, and
        # nobody knows which: it ends none.
        def next_fiber(one)
          one.starts.pop
        rescue StandardError => error
          ErrorReport.write("another thread raised this in the thread #{@name}", error)
          retry
        end

        # A method of its own, so each fiber has its own variable.
        def run(one, fiber)
          Fiber.schedule do
            fiber.run
            leave(one, fiber)
          end
        end

        def leave(one, fiber)
          @lock.synchronize do
            one.fibers.delete(fiber)
            next if one.fibers.any? || !@loop.equal?(one)

            one.starts << nil
            @loop = nil
          end
        end

        # A job may have killed the thread, or the loop has failed. Those that have not begun begin
        # in the next loop; the others are Sidekiq's to replace.
        def broken_off(one)
          left = @lock.synchronize do
            @loop = nil if @loop.equal?(one)
            one.fibers.keys
          end
          waiting = Array.new(one.starts.size) { one.starts.pop }.compact
          begun = left - waiting
          begun.each(&:over)
          sleep PAUSE if begun.empty? && waiting.any? # it could not even begin
          waiting.each { |fiber| start_again(fiber) }
        end

        def start_again(fiber)
          start(fiber)
        rescue ThreadError # the system allows no more threads now
          sleep PAUSE
          retry
        end
      end
    end
  end
end

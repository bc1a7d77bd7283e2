# frozen_string_literal: true

require_relative "strand"

module NB
  module Drivers
    module Sidekiq
      # The loop of one capsule, on a thread of its own, whose fibers run the processors. It exists
      # only while there are processors.
      class Crew
        LOCK = Thread::Mutex.new
        private_constant :LOCK
        @all = ObjectSpace::WeakMap.new

        # @param capsule [Sidekiq::Capsule]
        # @return [Crew] of this capsule
        # @thread any
        # @api private
        def self.of(capsule) = LOCK.synchronize { @all[capsule] ||= new(capsule) }

        # @api private
        def initialize(capsule)
          @name = "sidekiq.#{capsule.name}/fibers"
          @priority = priority(capsule)
          @count = 0
          @lock = Thread::Mutex.new
        end

        # @yield in a fiber of the loop
        # @return [Strand]
        # @thread any
        # @api private
        def start(&block)
          strand = Strand.new(block)
          @lock.synchronize do
            @starts ||= start_loop
            @count += 1
            @starts << strand
          end
          strand
        end

        private

        # Sidekiq 7 does not have it.
        def priority(capsule)
          return 0 unless capsule.respond_to?(:thread_priority)

          capsule.thread_priority || ::Sidekiq::DEFAULT_THREAD_PRIORITY
        end

        # @return [Thread::Queue] of strands to be run; nil ends the loop
        def start_loop
          starts = Thread::Queue.new
          thread = Thread.new do
            Thread.current.name = @name
            NB.run { work(starts) }
          end
          thread.priority = @priority
          starts
        end

        def work(starts)
          while (strand = starts.pop)
            run(strand)
          end
        end

        # A method of its own, so each strand has its own variable.
        def run(strand)
          Fiber.schedule do
            strand.run
          ensure
            leave
          end
        end

        def leave
          @lock.synchronize do
            next if (@count -= 1).positive?

            @starts << nil
            @starts = nil
          end
        end
      end
    end
  end
end

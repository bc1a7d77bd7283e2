# frozen_string_literal: true

require_relative "../../error_report"
require_relative "strand"

module NB
  module Drivers
    module Sidekiq
      # The loop of one capsule, on a thread of its own, whose fibers run the processors. It exists
      # only while there are processors.
      class Crew
        LOCK = Thread::Mutex.new
        # Seconds until a loop that could not begin is tried again.
        PAUSE = 1
        private_constant :LOCK, :PAUSE
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
          @lock = Thread::Mutex.new
        end

        # @param strand [Strand]
        # @return [Strand] that runs soon, in a fiber of the loop
        # @thread any
        # @api private
        def start(strand)
          @lock.synchronize do
            @loop ||= start_loop
            @loop.strands[strand] = true
            @loop.starts << strand
          end
          strand
        end

        private

        # One run of the loop: strands that have not ended, and the queue of those that have not
        # begun, in which nil ends the loop.
        Loop = Struct.new(:strands, :starts)
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
          while (strand = next_strand(one))
            run(one, strand)
          end
        end

        # What another thread raises in this one (Thread#raise) is meant for one of the jobs, and
        # nobody knows which: it ends none.
        def next_strand(one)
          one.starts.pop
        rescue StandardError => error
          ErrorReport.write("another thread raised this in the thread #{@name}", error)
          retry
        end

        # A method of its own, so each strand has its own variable.
        def run(one, strand)
          Fiber.schedule do
            strand.run
            leave(one, strand)
          end
        end

        def leave(one, strand)
          @lock.synchronize do
            one.strands.delete(strand)
            next if one.strands.any? || !@loop.equal?(one)

            one.starts << nil
            @loop = nil
          end
        end

        # A job may have killed the thread, or the loop has failed. Those that have not begun begin
        # in the next loop; the others are Sidekiq's to replace.
        def broken_off(one)
          left = @lock.synchronize do
            @loop = nil if @loop.equal?(one)
            one.strands.keys
          end
          waiting = Array.new(one.starts.size) { one.starts.pop }.compact
          begun = left - waiting
          begun.each(&:over)
          sleep PAUSE if begun.empty? && waiting.any? # it could not even begin
          waiting.each { |strand| start_again(strand) }
        end

        def start_again(strand)
          start(strand)
        rescue ThreadError # the system allows no more threads now
          sleep PAUSE
          retry
        end
      end
    end
  end
end

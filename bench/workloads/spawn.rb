# frozen_string_literal: true

require_relative "memory"

module Bench
  module Workloads
    # Starts many jobs that all stay alive, looks at the clock and the memory, lets them end, and
    # starts as many again: what can be used again, is.
    class Spawn < Workload
      DEFAULTS = { count: 1_000 }.freeze

      # @return [Hash] :value in seconds until the last of them waits
      def measure
        GC.start
        GC.disable # as in the article: all stay reachable, nothing is collected
        memory = Memory.read
        sample = timed { spawn_all }
        note(sample, Memory.read.merge(memory) { |_, after, before| after - before })
        release
        complete = complete?
        again if complete
        sample.merge(value: complete ? sample[:elapsed] : nil, operations: @metrics[:reached])
      end

      private

      def spawn_all
        @gate = Thread::Queue.new
        @ready = Thread::Queue.new
        @ended = Thread::Queue.new
        @kept = []
        job = plain? ? proc { Fiber.yield } : proc { park }
        params[:count].times { @kept << runtime.start(&job) }
      rescue FiberError, ThreadError, NoMemoryError, SystemCallError => error
        @notes << "ends at #{@kept.size}: #{error.message}"
      ensure
        @kept.size.times { @ready.pop } unless plain?
      end

      # Plain fibers run until they yield, nobody else wakes them.
      def plain? = runtime.id == "fibers"

      def park
        @ready << true
        @gate.pop
        @ended << true
      end

      def release
        return @kept.each(&:resume) if plain?

        @gate.close
        @kept.size.times { @ended.pop }
      end

      def complete? = @kept.size == params[:count]

      def again
        second = timed { spawn_all }
        @metrics[:again_us_each] = second[:elapsed] / params[:count] * 1e6
        release
      end

      def note(sample, memory)
        @metrics[:reached] = @kept.size
        @metrics[:us_each] = sample[:elapsed] / params[:count] * 1e6 if complete?
        memory.each do |key, added|
          @metrics[key] = added
          @metrics[:"#{key}_each"] = added.fdiv([@kept.size, 1].max)
        end
      end
    end
  end
end

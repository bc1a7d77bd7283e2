# frozen_string_literal: true

module Bench
  module Workloads
    # Starts many jobs that all stay alive, and looks at the clock and the memory.
    class Spawn < Workload
      DEFAULTS = { count: 1_000 }.freeze

      # @return [Hash] :value in seconds until the last of them waits
      def measure
        @gate = Thread::Queue.new
        @ready = Thread::Queue.new
        @kept = []
        GC.start
        GC.disable # as in the article: all stay reachable, nothing is collected
        memory = Memory.read
        sample = timed { spawn_all }
        note_memory(memory, Memory.read)
        @metrics[:reached] = @kept.size
        @gate.close
        complete = @kept.size == params[:count]
        @notes << "ends at #{@kept.size}: #{@reason}" unless complete
        @metrics[:us_each] = sample[:elapsed] / params[:count] * 1e6 if complete
        sample.merge(value: complete ? sample[:elapsed] : nil, operations: @kept.size)
      end

      private

      def spawn_all
        plain = runtime.id == "fibers"
        job = plain ? proc { Fiber.yield } : proc { park }
        params[:count].times { @kept << runtime.start(&job) }
      rescue FiberError, ThreadError, NoMemoryError, SystemCallError => error
        @reason = error.message
      ensure
        @kept.size.times { @ready.pop } unless plain
      end

      def park
        @ready << true
        @gate.pop
      end

      def note_memory(before, after)
        before.each_key do |key|
          @metrics[key] = after[key] - before[key]
          @metrics[:"#{key}_each"] = (after[key] - before[key]).fdiv([@kept.size, 1].max)
        end
      end
    end

    # What the kernel says about this process' memory.
    module Memory
      module_function

      # @return [Hash] :rss_kb, :pss_kb, :virtual_kb, :maps
      def read
        status = File.read("/proc/self/status")
        rollup = File.read("/proc/self/smaps_rollup")
        { rss_kb: status[/^VmRSS:\s+(\d+)/, 1].to_i, pss_kb: rollup[/^Pss:\s+(\d+)/, 1].to_i,
          virtual_kb: status[/^VmSize:\s+(\d+)/, 1].to_i,
          maps: File.foreach("/proc/self/maps").count }
      end
    end
  end
end

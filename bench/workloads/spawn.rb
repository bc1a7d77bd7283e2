# frozen_string_literal: true

require_relative "memory"

module Bench
  module Workloads
    # Starts many jobs that all stay alive, looks at the clock and the memory, lets them end, and
    # starts as many again: what can be used again, is.
    class Spawn < Workload
      DEFAULTS = { count: 1_000 }.freeze
      # For how many seconds it starts as many again.
      AGAIN = 0.3

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

      # Not with what was created in its memory: together it may be too much for the machine.
      def rest = (super unless @kept)

      private

      def spawn_all
        @gate = Thread::Queue.new
        @ready = Thread::Queue.new
        @ended = Thread::Queue.new
        @kept = []
        params[:count].times { @kept << start_one }
      rescue FiberError, ThreadError, NoMemoryError, SystemCallError => error
        @notes << "ends at #{@kept.size}: #{error.message}#{limit}"
      ensure
        await_all unless plain?
      end

      def start_one
        case runtime.id
        when "fibers" then runtime.start { Fiber.yield }
        when "ractors" then ractor
        else runtime.start { park }
        end
      end

      # It sees nothing of ours, but can send to us.
      def ractor
        Ractor.new(Ractor.current) do |parent|
          parent.send(true)
          Ractor.receive
        end
      end

      def await_all
        @kept.size.times { ractors? ? Ractor.receive : @ready.pop }
      end

      # The kernel's, where that is what fails: each stack is two memory mappings.
      def limit
        maps = File.foreach("/proc/self/maps").count
        most = File.read("/proc/sys/vm/max_map_count").to_i
        " (#{maps} mappings, vm.max_map_count is #{most})" if maps > most * 0.95
      rescue SystemCallError
        nil
      end

      # Plain fibers run until they yield, nobody else wakes them.
      def plain? = runtime.id == "fibers"

      def ractors? = runtime.id == "ractors"

      def park
        @ready << true
        @gate.pop
        @ended << true
      end

      def release
        return @kept.each(&:resume) if plain?
        return release_ractors if ractors?

        @gate.close
        @kept.size.times { @ended.pop }
      end

      def release_ractors
        @kept.each { |one| one.send(true) }
        @kept.each { |one| one.respond_to?(:value) ? one.value : one.take }
      end

      def complete? = @kept.size == params[:count]

      # Many times, because few microseconds say little.
      def again
        began = now
        times = []
        while times.empty? || now - began < AGAIN
          times << timed { spawn_all }[:elapsed]
          release
        end
        @metrics[:again_us_each] = times.sort[times.size / 2] / params[:count] * 1e6 if complete?
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

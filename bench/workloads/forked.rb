# frozen_string_literal: true

module Bench
  module Workloads
    # Children of a process with many objects: how much of the memory that they began with in common
    # does each own after some garbage collections.
    class Forked < Workload
      DEFAULTS = { way: "fork", collections: 0, children: 4, objects: 300_000 }.freeze

      def prepare
        @objects = Array.new(params[:objects]) { |index| [index.to_s * 3] }
        case params[:way]
        when "collect" then GC.start
        when "warmup" then Process.warmup
        end
      end

      # @return [Hash] :value in MB that a child owns alone
      def measure
        sample = timed { look_at_children }
        @metrics.merge!(pss_mb: mean("Pss"), children_mb: @found.sum { |one| one["Pss"] } / 1024.0)
        expect(@found.all? { |one| one["Rss"].positive? }, "a child has no memory")
        sample.merge(value: mean("Private_Dirty"), operations: params[:children])
      end

      private

      def look_at_children
        waits, stop = IO.pipe # its end is the children's sign to leave
        children = Array.new(params[:children]) { child(waits, stop) }
        children.each { |_pid, ready| ready.read(1) }
        @found = children.map { |pid, _ready| memory(pid) }
      ensure
        stop&.close
        children&.each { |pid, _ready| Process.wait(pid) }
      end

      # It works as a server's worker does: makes garbage, and collects it.
      def child(waits, stop)
        ready, told = IO.pipe
        pid = fork do
          stop.close
          params[:collections].times do
            Array.new(10_000) { +"garbage" }
            GC.start
          end
          told.write("x")
          waits.read
          exit!(0)
        end
        told.close
        [pid, ready]
      end

      def memory(pid)
        File.read("/proc/#{pid}/smaps_rollup").scan(/^(\w+):\s+(\d+) kB/)
            .to_h { |name, kb| [name, kb.to_i] }
      end

      def mean(name) = @found.sum { |one| one.fetch(name) } / 1024.0 / @found.size
    end
  end
end

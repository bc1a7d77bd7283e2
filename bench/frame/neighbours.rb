# frozen_string_literal: true

module Bench
  # The other programs of this machine: how much of a core they use while a sample is taken. This
  # process and its descendants are ours. The kernel's own threads count as nobody's; the time that
  # the hypervisor gives to other guests counts as others'.
  class Neighbours
    # If others use more than this share of a core, the sample is repeated.
    LIMIT = 0.05
    # Of a process: its own CPU ticks, those of its children that have ended, its parent, its state.
    Entry = Struct.new(:ticks, :children, :parent, :state)
    # PF_KTHREAD of linux/sched.h
    KERNEL = 0x00200000
    private_constant :Entry, :KERNEL

    # @param proc [String] where procfs is mounted
    # @param pid [Integer] whose descendants are ours
    def initialize(proc: "/proc", pid: Process.pid)
      @proc = proc
      @pid = pid
      @hertz = Etc.sysconf(Etc::SC_CLK_TCK).to_f
    end

    # @yield the sample
    # @return [Array] its value, and the cores that others used meanwhile (0.05 is 5 % of one)
    def watch
      before = [processes, stolen, now]
      value = yield
      after = [processes, stolen, now]
      ticks = used(before[0], after[0]) + after[1] - before[1]
      [value, ticks / @hertz / (after[2] - before[2])]
    end

    private

    # Ticks of others between two looks. The time of a child that has ended meanwhile is part of its
    # parent's. What the child had used before the first look must not count; nor what our ancestors
    # inherit: a worker of a server that ends after its master becomes a child of one of them, init.
    def used(before, after)
      known = known(before, after)
      parents = parents(after)
      ancestors = line(@pid, parents)
      foreign = after.reject do |key, entry|
        line(key.first, parents).include?(@pid) ||
          (entry.state == "Z" && ancestors.include?(entry.parent) && !before.key?(key))
      end
      foreign.sum do |key, entry|
        past = before.fetch(key, Entry.new(0, 0))
        inherited = entry.children - past.children - known.fetch(key.first, 0)
        inherited = 0 if inherited.negative? || ancestors.include?(key.first)
        entry.ticks - past.ticks + inherited
      end
    end

    # What those that have ended meanwhile had used before, by the nearest ancestor that has not.
    def known(before, after)
      gone = before.reject { |key, _| after.key?(key) }
      parents = parents(gone)
      gone.each_value.with_object(Hash.new(0)) do |entry, sums|
        heir = entry.parent
        heir = parents[heir] while parents.key?(heir)
        sums[heir] += entry.ticks + entry.children
      end
    end

    def parents(processes) = processes.to_h { |(pid, _), entry| [pid, entry.parent] }

    # @return [Array<Integer>] a process, its parent, its parent's parent, and so on
    def line(pid, parents)
      line = []
      while parents.key?(pid)
        line << pid
        pid = parents[pid]
      end
      line
    end

    # @return [Hash{Array(Integer, Integer) => Entry}] by pid and start, because pids are reused
    def processes
      Dir.glob("#{@proc}/[0-9]*/stat").each_with_object({}) do |path, found|
        fields = KernelFile.read(path).rpartition(") ").last.split
        next if fields.empty? || (fields[6].to_i & KERNEL).positive?

        own, children = fields[11..14].map(&:to_i).each_slice(2).map(&:sum)
        found[[path[%r{(\d+)/stat}, 1].to_i, fields[19].to_i]] =
          Entry.new(own, children, fields[1].to_i, fields[0])
      end
    end

    def stolen = KernelFile.read("#{@proc}/stat")[/^cpu .*/].to_s.split[8].to_i

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

# frozen_string_literal: true

require "etc"
require "socket"

module Bench
  # Where the numbers come from: all a reader needs to judge them. Written beside the samples.
  module Machine
    SYSCTLS = %w[net/core/somaxconn net/ipv4/tcp_tw_reuse net/ipv4/ip_local_port_range
                 vm/max_map_count kernel/pid_max kernel/threads-max].freeze
    # Above this load others work on the machine and the numbers are doubtful.
    BUSY = 0.5
    private_constant :SYSCTLS

    module_function

    # @return [Hash]
    def describe
      { host: Socket.gethostname, kernel: "#{Etc.uname[:sysname]} #{Etc.uname[:release]}",
        cpu: cpu, cores: Etc.nprocessors, governor: governor, memory_mb: memory_mb,
        load: load_average, priority: priority, open_files: Process.getrlimit(:NOFILE).first,
        sysctl: SYSCTLS.to_h { |name| [name.tr("/", "."), sysctl(name)] },
        commit: commit }
    end

    # @return [Float] of the last minute
    def load_average
      KernelFile.read("/proc/loadavg").to_f
    end

    # @param facts [Hash] from {.describe}, keys as Strings or Symbols
    # @return [String] one line for people
    def line(facts)
      facts = facts.transform_keys(&:to_sym)
      "#{facts[:cpu]}, #{facts[:cores]} cores, #{(facts[:memory_mb] / 1024.0).round} GB, " \
        "#{facts[:kernel]}, load #{facts[:load]} at the start" \
        "#{", #{facts[:priority]} priority" if facts[:priority]}, commit #{facts[:commit]}"
    end

    # For whom others have to wait (`chrt -r 1 nb bench …`): what they compute changes little.
    #
    # @return [String, nil] "real-time", or nil
    def priority
      policy = KernelFile.read("/proc/self/stat").rpartition(")").last.split[38].to_i # sched(7)
      "real-time" if policy.between?(1, 2)
    end

    # @return [String] short hash of the source, with + when files differ from it
    def commit
      hash, status = Command.capture("git", "-C", ROOT, "rev-parse", "--short", "HEAD")
      return "unknown" unless status.success?

      changed, = Command.capture("git", "-C", ROOT, "status", "--porcelain", "-uno")
      hash.strip + (changed.strip.empty? ? "" : "+")
    rescue Errno::ENOENT
      "unknown"
    end

    # @return [String]
    def cpu
      KernelFile.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)$/, 1] || Etc.uname[:machine]
    end

    # @return [String]
    def governor
      text = KernelFile.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip
      text.empty? ? "unknown" : text
    end

    def sysctl(name) = KernelFile.read("/proc/sys/#{name}").strip

    # @return [Integer]
    def memory_mb
      KernelFile.read("/proc/meminfo")[/^MemTotal:\s+(\d+)/, 1].to_i / 1024
    end
  end
end

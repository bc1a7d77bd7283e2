# frozen_string_literal: true

require "etc"

module NB
  # The Ruby and the machine that everything runs on.
  class Doctor
    # Memory mappings of a fiber: its stack and its guard page.
    MAPS_PER_FIBER = 2
    # Mappings that a process has in any case.
    OTHER_MAPS = 5_000
    # Descriptors of a serving process: two for a request that calls one service.
    FEWEST_FILES = 4_096
    # Connections that the kernel keeps for a busy server.
    FEWEST_BACKLOG = 1_024
    private_constant :MAPS_PER_FIBER, :OTHER_MAPS, :FEWEST_FILES, :FEWEST_BACKLOG

    check "ruby" do |_|
      yjit = defined?(RubyVM::YJIT)
      if RUBY_VERSION < "3.2"
        note "Ruby #{RUBY_VERSION}: NeverBlock has to repair some waits, and YJIT brings little",
             cure: "use Ruby 3.4: faster, with next to nothing to repair"
      elsif !yjit
        warning "this Ruby was built without YJIT", cure: "build it with rustc installed"
      end
    end

    check "files" do |_|
      soft, hard = Process.getrlimit(:NOFILE)
      next if hard >= FEWEST_FILES

      warning "#{soft} open files (hard limit #{hard}), and every connection needs one",
              cure: "ulimit -n 65536, or LimitNOFILE=65536 in the systemd unit"
    end

    check "backlog" do |_|
      limit = Doctor.sysctl("net/core/somaxconn") or next
      next if limit >= FEWEST_BACKLOG

      warning "net.core.somaxconn is #{limit}: in a burst, clients need a second more to connect",
              cure: "sysctl -w net.core.somaxconn=4096"
    end

    check "stacks" do |project|
      limit = Doctor.sysctl("vm/max_map_count") or next
      wanted = (project.fibers * MAPS_PER_FIBER) + OTHER_MAPS
      next if wanted <= limit

      warning "#{project.fibers} fibers need about #{wanted} memory maps; vm.max_map_count is " \
              "#{limit}",
              cure: "sysctl -w vm.max_map_count=#{wanted * 2}, or fewer fibers"
    end

    check "processor" do |project|
      cores = Doctor.usable_cores
      if cores < 1
        warning "this control group allows #{cores} of a core, which slows down even one process",
                cure: "give each process a CPU quota of one core"
      elsif project.workers > cores.ceil
        warning "#{project.workers} processes for #{cores} cores",
                cure: "one per core: workers :auto"
      end
    end

    class << self
      # @return [Integer, nil] the kernel's setting
      # @api private
      def sysctl(name)
        Integer(File.read("/proc/sys/#{name}"))
      rescue SystemCallError
        nil # not Linux, or hidden
      end

      # @return [Float] cores, or fewer by the control group's quota
      # @api private
      def usable_cores
        quota, period = File.read("/sys/fs/cgroup/cpu.max").split
        quota == "max" ? Etc.nprocessors.to_f : [Float(quota) / Float(period), Etc.nprocessors].min
      rescue SystemCallError
        Etc.nprocessors.to_f
      end
    end
  end
end

# frozen_string_literal: true

require "etc"

module NB
  class Server
    # The number of cores that this process may use: by affinity, or fewer by the CPU quota of its
    # control group and the groups above it. A container with half a core on a machine of 64 cores
    # has one.
    #
    # @api private
    module Cores
      class << self
        # @param groups [String] the file that lists the control groups of the process
        # @param root [String] where the kernel mounts them
        # @return [Integer] at least 1
        def usable(groups: "/proc/self/cgroup", root: "/sys/fs/cgroup")
          quota = quotas(groups, root).min || Float::INFINITY
          [Etc.nprocessors, quota.infinite? ? Etc.nprocessors : quota.ceil].min.clamp(1, 1024)
        end

        private

        # In cores, for every group of the process. Version 2 has one line "0::/path", version 1 a
        # line for each controller.
        def quotas(groups, root)
          File.readlines(groups, chomp: true).flat_map do |line|
            _, controllers, path = line.split(":", 3)
            next above(root, path) { |folder| new_quota(folder) } if controllers.empty?
            next [] unless controllers.split(",").include?("cpu")

            mounts = ["cpu", controllers].map { |name| File.join(root, name) }
            mount = mounts.find { |folder| File.directory?(folder) } or next []
            above(mount, path) { |folder| old_quota(folder) }
          end
        rescue SystemCallError
          []
        end

        # The group, its parent, and so on up to the root.
        def above(root, path)
          parts = path.split("/").reject(&:empty?)
          parts.size.downto(0).filter_map { |count| yield File.join(root, *parts.first(count)) }
        end

        def new_quota(folder)
          quota, period = File.read(File.join(folder, "cpu.max")).split
          Integer(quota) / Float(period) unless quota == "max"
        rescue SystemCallError
          nil # the root has no such file, and a container does not see the groups above its own
        end

        def old_quota(folder)
          quota = Integer(File.read(File.join(folder, "cpu.cfs_quota_us")))
          quota / Float(File.read(File.join(folder, "cpu.cfs_period_us"))) if quota.positive?
        rescue SystemCallError
          nil
        end
      end
    end
  end
end

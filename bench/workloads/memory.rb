# frozen_string_literal: true

module Bench
  module Workloads
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

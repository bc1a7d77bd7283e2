# frozen_string_literal: true

module Bench
  module Workloads
    # Connections that the kernel lets wait no longer because a listener's queue is full: it drops
    # the SYN, and the client's kernel tries again after a second. The counts are those of all
    # programs of the machine (of the network namespace).
    module KernelDrops
      # Pairs of lines: names, then numbers.
      NETSTAT = "/proc/net/netstat"
      # Their names there => ours. A drop may have other reasons than a full queue, too.
      NAMES = { "ListenOverflows" => :listen_overflows, "ListenDrops" => :listen_drops }.freeze
      private_constant :NETSTAT, :NAMES

      module_function

      # @yield some load
      # @return [Array] what the block returned, and how many were dropped meanwhile: a Hash, empty
      #   where the kernel does not tell
      def count
        before = read
        found = yield
        [found, read.merge(before) { |_, after, earlier| after - earlier }]
      end

      # @param text [String] of {NETSTAT}
      # @return [Hash{Symbol => Integer}]
      def read(text = KernelFile.read(NETSTAT))
        names, numbers = text.lines.grep(/\ATcpExt:/).map(&:split)
        return {} unless numbers

        found = names.zip(numbers).to_h.slice(*NAMES.keys)
        found.to_h { |name, number| [NAMES.fetch(name), Integer(number)] }
      end
    end
  end
end

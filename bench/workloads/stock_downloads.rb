# frozen_string_literal: true

require_relative "buffers"

module Bench
  module Workloads
    # Downloads by unchanged Net::HTTP, each in a fiber or thread of the runtime.
    class StockDownloads < Buffers
      # @return [Integer] bytes
      def round
        bytes = 0
        gather(1) { bytes = super() }
        bytes
      end
    end
  end
end

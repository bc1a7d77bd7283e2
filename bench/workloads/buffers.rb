# frozen_string_literal: true

require "neverblock/cli"
require "neverblock/cli/rubyhttp"

module Bench
  module Workloads
    # Downloads with one of the ways of `nb rubyhttp` from one of its sites.
    class Buffers < Workload
      DEFAULTS = { impl: "stock", site: "dallas", bytes: 5_000_000 }.freeze

      # @return [Hash] :value in CPU seconds per gigabyte
      def measure
        NB::CLI::RubyhttpSites.open(params[:bytes], [params[:site]]) do |ports|
          @port = ports.fetch(params[:site])
          sample = super
          @metrics[:cpu_percent] = sample[:cpu] / sample[:elapsed] * 100
          @metrics[:mb_per_s] = sample[:value] / 1e6
          sample.merge(value: sample[:cpu] / sample[:operations] * 1e9)
        end
      end

      # @return [Integer] bytes
      def round
        bytes = 0
        told = NB::CLI::RubyhttpClients.get(params[:impl], @port) { |chunk| bytes += chunk.bytesize }
        bytes = told if told
        expect(bytes == params[:bytes], "#{bytes} bytes instead of #{params[:bytes]}")
        bytes
      end
    end
  end
end

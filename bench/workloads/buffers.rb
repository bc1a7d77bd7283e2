# frozen_string_literal: true

require "neverblock/cli"
require "neverblock/cli/rubyhttp"

module Bench
  module Workloads
    # Downloads with one of the ways of `nb rubyhttp` from one of its sites.
    class Buffers < Workload
      DEFAULTS = { impl: "stock", site: "dallas", bytes: 5_000_000 }.freeze

      # How often the program curl is started to know what that costs.
      STARTS = 20
      private_constant :STARTS

      # @return [Hash] :value in CPU seconds per gigabyte; of curl without its start
      def measure
        NB::CLI::RubyhttpSites.open(params[:bytes], [params[:site]]) do |ports|
          @port = ports.fetch(params[:site])
          sample = super
          @metrics[:cpu_percent] = sample[:cpu] / sample[:elapsed] * 100
          @metrics[:mb_per_s] = sample[:value] / 1e6
          rounds = sample[:operations] / params[:bytes].to_f
          cpu = sample[:cpu] - (rounds * start_of_a_program)
          sample.merge(value: cpu / sample[:operations] * 1e9)
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

      private

      # @return [Float] CPU seconds
      def start_of_a_program
        return 0.0 unless params[:impl] == NB::CLI::RubyhttpClients::CURL

        before = cpu_seconds
        STARTS.times { NB::CLI::RubyhttpClients.start_curl }
        @metrics[:start_s] = (cpu_seconds - before) / STARTS
      end
    end
  end
end

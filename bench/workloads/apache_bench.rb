# frozen_string_literal: true

require "open3"
require_relative "server_process"

module Bench
  module Workloads
    # ab, the load generator of the articles: so many requests at once, each over a connection of
    # its own.
    module ApacheBench
      # Seconds that ab waits for an answer.
      PATIENCE = 60
      # Its lines "  50%   5012", in ms; 100 % is the longest.
      SHARE = /^\s+(\d+)%\s+(\d+)/.freeze
      private_constant :PATIENCE, :SHARE

      # @param url [String]
      # @param requests [Integer]
      # @param at_once [Integer]
      # @param cores [Array<Integer>, nil] where it may run; nil: anywhere, in our process group
      # @return [Hash] :rate (answers per second), :failed, :elapsed (s), :within (metric => ms) and
      #   :output (all that it printed)
      # @raise [RuntimeError] with its last lines, reason and number of answers, when it gave up
      def self.run(url, requests:, at_once:, cores: nil)
        command = ["ab", "-q", "-r", "-s", PATIENCE.to_s, "-c", at_once.to_s, "-n", requests.to_s,
                   url]
        output, = Open3.capture2e(*(cores ? ServerProcess.pin(cores, command) : command))
        failed = output[/^Failed requests:\s+(\d+)/, 1] or
          raise "ab: #{output.lines.map(&:strip).reject(&:empty?).last(2).join("; ")}"

        { rate: output[/^Requests per second:\s+([\d.]+)/, 1].to_f, failed: failed.to_i,
          elapsed: output[/^Time taken for tests:\s+([\d.]+)/, 1].to_f,
          within: within(output), output: output }
      end

      # @param output [String]
      # @return [Hash{Symbol => Integer}] :p50_ms to :p99_ms and :longest_ms
      def self.within(output)
        output.scan(SHARE).to_h do |share, ms|
          [share == "100" ? :longest_ms : :"p#{share}_ms", ms.to_i]
        end
      end
      private_class_method :within
    end
  end
end

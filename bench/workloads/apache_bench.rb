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
      # @param cores [Array<Integer>] where it may run
      # @return [Hash] :rate (answers per second), :failed, :elapsed (s) and :within (percent => ms)
      # @raise [RuntimeError] with its last line when it gave up
      def self.run(url, requests:, at_once:, cores:)
        command = ["ab", "-q", "-r", "-s", PATIENCE.to_s, "-c", at_once.to_s, "-n", requests.to_s,
                   url]
        output, = Open3.capture2e(*ServerProcess.pin(cores, command))
        failed = output[/^Failed requests:\s+(\d+)/, 1] or raise "ab: #{output.lines.last}"

        { rate: output[/^Requests per second:\s+([\d.]+)/, 1].to_f, failed: failed.to_i,
          elapsed: output[/^Time taken for tests:\s+([\d.]+)/, 1].to_f,
          within: output.scan(SHARE).to_h { |share, ms| [share.to_i, ms.to_i] } }
      end
    end
  end
end

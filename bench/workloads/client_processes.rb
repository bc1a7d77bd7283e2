# frozen_string_literal: true

require "json"
require_relative "requests"

module Bench
  module Workloads
    # The requests of A5, by several processes at once: each has its own runtime and makes all of
    # them. The rates add up.
    class ClientProcesses < Requests
      DEFAULTS = Requests::DEFAULTS.merge(processes: 1).freeze

      # @return [Hash] the sample of all
      def run
        start, @start = IO.pipe
        children = Array.new(params[:processes]) { child(start) }
        children.each { |_pid, answer| answer.gets } # warm
        @start.close
        sum(children.map { |pid, answer| collect(pid, answer) })
      end

      # The children begin to measure together.
      def measure
        @answer.puts("ready")
        @start.read
        super
      end

      # Two processes cannot wait for the same line: they end in one turn.
      def rest = (super if params[:processes] == 1)

      private

      def child(start)
        answer, @answer = IO.pipe
        pid = fork do
          answer.close
          @start.close
          @start = start
          @answer.puts(JSON.generate(Requests.instance_method(:run).bind_call(self)))
          @answer.flush
          exit!(0)
        end
        @answer.close
        [pid, answer]
      end

      def collect(pid, answer)
        line = answer.gets
        Process.wait(pid)
        line ? JSON.parse(line, symbolize_names: true) : raise("a client ended without an answer")
      end

      def sum(samples)
        total = %i[value cpu operations errors].to_h { |key| [key, samples.sum { |one| one[key] }] }
        total.merge(elapsed: samples.map { |one| one[:elapsed] }.max,
                    first_error: samples.filter_map { |one| one[:first_error] }.first,
                    metrics: { cpu_us_per_op: total[:cpu] / total[:operations] * 1e6 },
                    notes: samples.flat_map { |one| one[:notes] }.uniq)
      end
    end
  end
end

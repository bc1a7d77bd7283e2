# frozen_string_literal: true

require_relative "server_process"

module Bench
  module Workloads
    # From the start of the process to the first answer of an empty application.
    class StartUp < Workload
      DEFAULTS = { workers: 1, times: 3, file: File::NULL }.freeze

      # @return [Hash] :value in seconds, the shortest of a few starts
      def measure
        start # the files are in the cache now
        times = Array.new(params[:times]) { start }
        { value: times.min, operations: times.size }
      end

      private

      def start
        return bare if runtime.id == "ruby"

        server = ServerProcess.new(runtime, application: "empty.ru")
        server.started_in
      ensure
        server&.stop
      end

      # What no server can be faster than.
      def bare
        started = now
        system(*Runtime.ruby, "-e", 'require "rack"', exception: true)
        now - started
      end
    end
  end
end

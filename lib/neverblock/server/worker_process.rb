# frozen_string_literal: true

require "json"

module NB
  class Server
    # One worker as its master sees it: a pid and a pipe with a heartbeat per second, each a line of
    # JSON with the server's counters. In the worker: {.serve} sends them.
    #
    # @api private
    class WorkerProcess
      # @return [Integer, IO] its place from 0; its process; where it reports
      attr_reader :index, :pid, :pipe
      # @return [Boolean] whether it was told to end
      attr_accessor :leaving

      # Forks; the block is the worker's whole life and gets the writing end.
      def self.start(index)
        reader, writer = IO.pipe
        pid = fork do
          reader.close
          yield writer
          exit!(0) # at_exit blocks are the master's
        rescue Exception => error # rubocop:disable Lint/RescueException -- ends the process
          warn("worker #{index}: #{error.full_message}")
          exit!(1)
        end
        writer.close
        new(index, pid, reader)
      end

      # Runs the server with a heartbeat from inside its loop.
      def self.serve(server, pipe)
        server.shared = true
        server.run do
          Fiber.schedule do
            loop do
              pipe.write("#{JSON.generate(server.stats.merge(ready: server.ready?,
rss_kb: rss_kb))}\n")
              Fiber.scheduler.idle { sleep 1 } # does not keep a drained server going
            end
          rescue Errno::EPIPE
            server.stop # the master is gone
          end
        end
      end

      # @return [Integer] this process's resident memory in KiB
      def self.rss_kb = Integer(File.read("/proc/self/statm").split[1]) * 4

      def initialize(index, pid, pipe)
        @index = index
        @pid = pid
        @pipe = pipe
        @started = @heard = now
        @stats = {}
        @rest = +""
      end

      # Takes in what the worker reports. @return [void]
      def read
        bytes = @pipe.read_nonblock(65_536, exception: false)
        return unless bytes.is_a?(String)

        @heard = now
        *lines, @rest = (@rest << bytes).split("\n", -1)
        @stats = JSON.parse(lines.last, symbolize_names: true) unless lines.empty?
      end

      def ready? = @stats[:ready] == true
      # @return [Integer] answered, as it reported last
      def requests = @stats[:requests].to_i
      # @return [Integer] as it reported last, in MiB
      def memory_mb = @stats[:rss_kb].to_i / 1024
      # @return [Float] seconds since its last report
      def silent_for = now - @heard
      # @return [Float] seconds since it was started
      def age = now - @started
      # @return [void]
      def close = @pipe.close
      # @return [Hash] what it reported last, for `nb stats`
      def to_h = @stats.merge(index: @index, pid: @pid, heard_s: silent_for.round(1))

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end

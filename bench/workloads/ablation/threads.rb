# frozen_string_literal: true

module Bench
  module Workloads
    class Ablation < Workload
      # Calls of threads, one per job.
      class Threads
        include Exchange

        # @param port [Integer] of the server
        def initialize(port, **)
          @port = port
        end

        # @return [TCPSocket]
        def connect = TCPSocket.new("127.0.0.1", @port)

        # @return [String]
        def ask(socket) = exchange(socket)

        # @param jobs [Integer]
        # @yieldparam done [Proc] to be called at the end of each job
        # @return [void] when all have ended
        def together(jobs)
          ended = Thread::Queue.new
          yield -> { ended << true }
          jobs.times { ended.pop }
        end
      end

      # Calls that are awaited as a comment of 2014 proposed.
      class Polling < Threads
        # Seconds between two looks.
        EVERY = 0.05
        private_constant :EVERY

        # @return [String]
        def ask(socket)
          call = Thread.new { exchange(socket) }
          sleep(EVERY) while call.alive?
          call.value
        end
      end
    end
  end
end

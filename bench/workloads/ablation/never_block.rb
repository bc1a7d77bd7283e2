# frozen_string_literal: true

module Bench
  module Workloads
    class Ablation < Workload
      # Calls on our loop: a fiber that simply reads, or callbacks of NB.reactor; or on twenty
      # threads, as many as EventMachine has.
      class NeverBlock
        include Exchange

        THREADS = 20
        private_constant :THREADS

        # @param port [Integer] of the server
        # @param pooled [Boolean] whether threads make the calls
        def initialize(port, pooled:)
          @port = port
          @pooled = pooled
          @reactor = NB.reactor
          @callbacks = {}.compare_by_identity
          start_threads if pooled
        end

        # @return [TCPSocket]
        def connect = TCPSocket.new("127.0.0.1", @port)

        # @return [String] the answer; the fiber waits
        def ask(socket)
          return exchange(socket) unless @pooled

          NB.await { |resume| @work << [socket, resume] }
        end

        # In {#together} with callbacks.
        #
        # @yieldparam answer [String]
        # @return [void]
        def ask_then(socket, &done)
          return @work << [socket, hand_over(done)] if @pooled

          watch(socket) unless @callbacks.key?(socket)
          @callbacks[socket] = done
          socket.write(HttpServer::REQUEST)
        end

        # @param jobs [Integer]
        # @yieldparam done [Proc] to be called at the end of each job
        # @return [void] when all have ended
        def together(jobs)
          @reactor.run do
            yield -> { @reactor.stop if (jobs -= 1).zero? }
          end
        end

        private

        # From a thread of the pool to the loop.
        def hand_over(done)
          ->(answer) { @reactor.next_tick { done.call(answer) } }
        end

        def watch(socket)
          @reactor.attach(:read, socket) do |io|
            @callbacks[io].call(whole(io, +""))
          end
        end

        def start_threads
          @work = Thread::Queue.new
          THREADS.times do
            Thread.new do
              while (socket, done = @work.pop)
                done.call(exchange(socket))
              end
            end
          end
        end
      end
    end
  end
end

# frozen_string_literal: true

module Bench
  module Workloads
    class Ablation < Workload
      # Calls on EventMachine's reactor, and on its own pool of twenty threads.
      class EventMachine
        include Exchange

        # @param port [Integer] of the server
        # @param pooled [Boolean] whether threads make the calls
        def initialize(port, pooled:)
          @port = port
          @pooled = pooled
          @wire = wire
        end

        # @return [TCPSocket, EM::Connection]
        def connect
          @pooled ? TCPSocket.new("127.0.0.1", @port) : EM.connect("127.0.0.1", @port, @wire)
        end

        # @return [String] the answer; the fiber waits
        def ask(connection)
          fiber = Fiber.current
          ask_then(connection) { |answer| fiber.resume(answer) }
          Fiber.yield
        end

        # @yieldparam answer [String]
        # @return [void]
        def ask_then(connection, &done)
          return connection.ask(&done) unless @pooled

          EM.defer(-> { exchange(connection) }, done)
        end

        # @param jobs [Integer]
        # @yieldparam done [Proc] to be called at the end of each job
        # @return [void] when all have ended
        def together(jobs)
          whole = Fiber.current
          yield -> { EM.next_tick { whole.resume } if (jobs -= 1).zero? }
          Fiber.yield
        end

        private

        # EventMachine is loaded in its own cells only.
        def wire
          Class.new(EM::Connection) do
            def ask(&done)
              @answer = +""
              @done = done
              send_data(HttpServer::REQUEST)
            end

            def receive_data(data)
              @answer << data
              @done.call(@answer) if @answer.bytesize >= HttpServer::RESPONSE.bytesize
            end
          end
        end
      end
    end
  end
end

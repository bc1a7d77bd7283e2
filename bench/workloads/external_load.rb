# frozen_string_literal: true

require "json"

module Bench
  module Workloads
    # For servers whose clients are a C program in another process: the cell counts the server's CPU
    # time, the program counts answers and compares them.
    module ExternalLoad
      # Starts the clients before the runtime exists: they wait for the server to listen.
      def before
        @server = TCPServer.new("127.0.0.1", 0)
        @server.listen(params[:clients] + 16)
        port = @server.local_address.ip_port
        program = Compiled.program(self.class::CLIENTS)
        @load = IO.popen([program, "load", port.to_s, params[:clients].to_s, seconds.to_s],
                         close_others: true)
      end

      # The socket is there already.
      def prepare; end

      # Serves until every client has gone.
      #
      # @return [Hash]
      def measure
        clients = params[:clients]
        timed do
          ended = Thread::Queue.new
          clients.times do
            connection = @server.accept
            runtime.start { ended << attempt { serve_until_gone(connection) } }
          end
          clients.times { ended.pop }
        end
      end

      # When its time is over, the program leaves without waiting for the last answers.
      def serve_until_gone(connection)
        serve(connection)
      rescue Errno::ECONNRESET, Errno::EPIPE
        nil
      end

      # The clients go on.
      def rest; end

      # @return [Hash] the server's times with the clients' count
      def run
        sample = super
        answer = JSON.parse(@load.read)
        @load.close
        cpu_us = sample[:cpu] / answer.fetch("total") * 1e6
        sample.merge(value: answer.fetch("value"), operations: answer.fetch("total"),
                     errors: sample[:errors] + answer.fetch("errors"),
                     metrics: sample[:metrics].merge(cpu_us_per_op: cpu_us))
      end
    end
  end
end

# frozen_string_literal: true

require_relative "local_server"

module Bench
  module Workloads
    # Clients and an echo server in one process: each round opens its connections anew and sends a
    # number of messages over each, one at a time. Every reply is compared.
    class TcpEcho < Workload
      include LocalServer

      DEFAULTS = { clients: 20, messages: 200, bytes: 512 }.freeze

      # @return [Array]
      def self.rival(params, seconds)
        ["c_echo", "both", *params.values_at(:clients, :messages), seconds]
      end

      # @return [Integer] echoes
      def round
        clients = params[:clients]
        gather(clients + 1) { |index| index.zero? ? accept(clients) : talk(index) }
        clients * params[:messages]
      end

      private

      def serve(connection)
        while (message = receive(connection, params[:bytes]))
          connection.write(message)
        end
      ensure
        connection.close
      end

      def talk(index)
        socket = TCPSocket.new("127.0.0.1", @port)
        message = index.to_s.ljust(params[:bytes], "x")
        params[:messages].times do
          socket.write(message)
          expect(receive(socket, params[:bytes]) == message, "echo differs")
        end
      ensure
        socket&.close
      end

      # @return [String, nil] exactly so many bytes, nil at the end
      def receive(socket, bytes)
        data = socket.readpartial(bytes)
        data << socket.readpartial(bytes - data.bytesize) while data.bytesize < bytes
        data
      rescue EOFError
        nil
      end
    end
  end
end

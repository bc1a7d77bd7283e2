# frozen_string_literal: true

require_relative "local_server"

module Bench
  module Workloads
    # Raw HTTP/1.1 over loopback, clients and server in one process, keep-alive. The whole response
    # is compared.
    class HttpServer < Workload
      include LocalServer

      DEFAULTS = { clients: 20, requests: 200 }.freeze
      BODY = "Hello, World!"
      RESPONSE = "HTTP/1.1 200 OK\r\nContent-Length: #{BODY.bytesize}\r\n" \
                 "Connection: keep-alive\r\n\r\n#{BODY}".freeze
      REQUEST = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
      HEAD_END = "\r\n\r\n"

      # @return [Array]
      def self.rival(params, seconds)
        ["c_http", "both", *params.values_at(:clients, :requests), seconds]
      end

      # @return [Integer] requests answered
      def round
        clients = params[:clients]
        gather(clients + 1) { |index| index.zero? ? accept(clients) : ask }
        clients * params[:requests]
      end

      private

      def serve(connection)
        while (head = read_head(connection))
          break wrong("bad request: #{head.inspect}") unless head.start_with?("GET / HTTP/1.1\r\n")

          connection.write(RESPONSE)
        end
      ensure
        connection.close
      end

      def ask
        socket = TCPSocket.new("127.0.0.1", @port)
        params[:requests].times do
          socket.write(REQUEST)
          expect(right?(read_response(socket)), "response differs")
        end
      ensure
        socket&.close
      end

      def right?(response) = response == RESPONSE

      def read_head(socket)
        data = socket.readpartial(4096)
        data << socket.readpartial(4096) until data.end_with?(HEAD_END)
        data
      rescue EOFError
        nil
      end

      def read_response(socket)
        data = socket.readpartial(4096)
        data << socket.readpartial(4096) until data.include?(HEAD_END)
        length = data[/^Content-Length: (\d+)/i, 1].to_i
        wanted = data.index(HEAD_END) + HEAD_END.size + length
        data << socket.readpartial(wanted - data.bytesize) while data.bytesize < wanted
        data
      end
    end
  end
end

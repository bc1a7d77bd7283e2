# frozen_string_literal: true

module Bench
  module Workloads
    # An HTTP/1.1 server of a few lines for the Net::HTTP workloads: always the same body.
    class KeepAliveServer
      # @return [Integer]
      attr_reader :port

      # @param runtime [Runtime] what each connection runs on
      # @param body [String]
      def initialize(runtime, body)
        @runtime = runtime
        @response = "HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\n" \
                    "Content-Type: application/octet-stream\r\n\r\n".b + body.b
        @server = TCPServer.new("127.0.0.1", 0)
        @server.listen(64)
        @port = @server.local_address.ip_port
      end

      # Takes exactly so many connections, then returns.
      #
      # @param count [Integer]
      # @return [void]
      def accept(count)
        count.times do
          connection = @server.accept
          @runtime.start { serve(connection) }
        end
      end

      private

      def serve(connection)
        loop do
          head = connection.readpartial(4096)
          head << connection.readpartial(4096) until head.end_with?("\r\n\r\n")
          connection.write(@response)
        end
      rescue EOFError, Errno::ECONNRESET
        nil
      ensure
        connection.close
      end
    end
  end
end

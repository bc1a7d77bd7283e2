# frozen_string_literal: true

module Bench
  module Workloads
    # For a server in the cell's own process: listens on loopback, and serves each connection in a
    # job of the runtime, by `serve(connection)`.
    module LocalServer
      def prepare
        @server = TCPServer.new("127.0.0.1", 0)
        @port = @server.local_address.ip_port
        @server.listen(params[:clients] + 16)
      end

      private

      def accept(count)
        count.times do
          connection = @server.accept
          runtime.start { attempt { serve(connection) } }
        end
      end
    end
  end
end

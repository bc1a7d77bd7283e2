# frozen_string_literal: true

require_relative "tcp_echo"
require_relative "external_load"

module Bench
  module Workloads
    # The echo server alone; a C program in another process is its clients.
    class TcpEchoExternal < TcpEcho
      include ExternalLoad

      private

      def serve_one(connection) = answer(connection)
    end
  end
end

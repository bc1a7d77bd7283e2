# frozen_string_literal: true

require_relative "tcp_echo"
require_relative "external_load"

module Bench
  module Workloads
    # The echo server alone; a C program in another process is its clients.
    class TcpEchoExternal < TcpEcho
      include ExternalLoad

      # The program in C.
      CLIENTS = "c_echo"

      # @return [Array] server and clients, each in a process
      def self.rival(params, seconds) = [CLIENTS, "apart", params[:clients], seconds]
    end
  end
end

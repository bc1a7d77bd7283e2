# frozen_string_literal: true

require_relative "http_server"
require_relative "external_load"

module Bench
  module Workloads
    # The HTTP server alone; a C program in another process is its clients.
    class HttpServerExternal < HttpServer
      include ExternalLoad

      # The program in C.
      CLIENTS = "c_http"

      # @return [Array] server and clients, each in a process
      def self.rival(params, seconds) = [CLIENTS, "apart", params[:clients], seconds]
    end
  end
end

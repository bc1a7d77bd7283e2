# frozen_string_literal: true

require_relative "http_server"
require_relative "external_load"

module Bench
  module Workloads
    # The HTTP server alone; a C program in another process is its clients.
    class HttpServerExternal < HttpServer
      include ExternalLoad

      private

      def serve_one(connection) = serve(connection)
    end
  end
end

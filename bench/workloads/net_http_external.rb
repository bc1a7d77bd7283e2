# frozen_string_literal: true

require_relative "net_http"

module Bench
  module Workloads
    # Net::HTTP alone; its server is a C program in another process.
    class NetHttpExternal < NetHttp
      def prepare
        @body = "Hello, World!"
        @port = params.fetch(:port)
      end

      # @return [Integer] requests
      def round
        gather(params[:clients]) { fetch }
        params[:clients] * params[:requests]
      end
    end
  end
end

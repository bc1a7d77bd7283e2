# frozen_string_literal: true

require "net/http"
require_relative "keep_alive_server"

module Bench
  module Workloads
    # Net::HTTP with keep-alive against a server on the same thread. The body is compared.
    class NetHttp < Workload
      DEFAULTS = { clients: 20, requests: 50, bytes: 13 }.freeze

      def prepare
        @body = Random.new(2008).bytes(params[:bytes])
        @server = KeepAliveServer.new(servers, @body)
        @port = @server.port
      end

      # @return [Integer] requests
      def round
        clients = params[:clients]
        gather(clients + 1) { |index| index.zero? ? @server.accept(clients) : fetch }
        clients * params[:requests]
      end

      private

      # @return [#start] what the server's connections run on
      def servers = runtime

      def fetch
        Net::HTTP.start("127.0.0.1", @port) do |http|
          params[:requests].times do
            response = http.get("/")
            expect(response.code == "200" && response.body == @body, "response differs")
          end
        end
      end
    end
  end
end

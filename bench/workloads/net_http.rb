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
        @server = KeepAliveServer.new(runtime, @body) unless params[:port]
        @port = params[:port] || @server.port
      end

      # @return [Integer] requests
      def round
        clients = params[:clients]
        first = @server ? 1 : 0
        gather(clients + first) { |index| index < first ? @server.accept(clients) : fetch }
        clients * params[:requests]
      end

      private

      def fetch
        Net::HTTP.start("127.0.0.1", @port) do |http|
          params[:requests].times do
            response = http.get("/")
            right = params[:port] ? response.body == "Hello, World!" : response.body == @body
            expect(response.code == "200" && right, "response differs: #{response.code}")
          end
        end
      end
    end
  end
end

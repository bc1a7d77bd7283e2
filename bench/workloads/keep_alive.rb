# frozen_string_literal: true

require "net/http"

module Bench
  module Workloads
    # Small GETs by twenty jobs: a connection for each request, one that a job keeps, or those of
    # NB::HTTP.persistent that all jobs share. The server is a C program in another process.
    class KeepAlive < Workload
      DEFAULTS = { how: "new", clients: 20, requests: 25 }.freeze
      BODY = "Hello, World!"
      private_constant :BODY

      def prepare
        @shared = NB::HTTP.persistent("http://127.0.0.1:#{params[:port]}") if
          params[:how] == "shared"
      end

      # @return [Integer] requests
      def round
        gather(params[:clients]) { send(params[:how]) }
        params[:clients] * params[:requests]
      end

      private

      def new
        params[:requests].times { start { |http| check(http.get("/")) } }
      end

      def kept
        start { |http| params[:requests].times { check(http.get("/")) } }
      end

      def shared
        params[:requests].times { check(@shared.get("/")) }
      end

      def start(&block) = Net::HTTP.start("127.0.0.1", params[:port], &block)

      def check(response)
        expect(response.code == "200" && response.body == BODY, "response differs")
      end
    end
  end
end

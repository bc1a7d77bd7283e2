# frozen_string_literal: true

require_relative "http_server"

module Bench
  module Workloads
    # Our web server with an application of one line, and its keep-alive clients, in one loop.
    class RackServer < HttpServer
      def prepare
        require "neverblock/server"
        listening = Thread::Queue.new
        app = ->(_env) { [200, { "content-length" => BODY.bytesize.to_s }, [BODY]] }
        server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", log: nil)
        runtime.start { server.run { listening << true } }
        listening.pop
        @port = server.port
      end

      # @return [Integer] requests answered
      def round
        gather(params[:clients]) { ask }
        params[:clients] * params[:requests]
      end

      private

      def right?(response)
        response.start_with?("HTTP/1.1 200 OK\r\n") && response.end_with?(HEAD_END + BODY)
      end
    end
  end
end

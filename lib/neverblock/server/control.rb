# frozen_string_literal: true

require "json"
require "socket"

module NB
  class Server
    # A UNIX socket that answers GET /stats with JSON, GET /requests with what runs and GET /ready
    # with 200 or 503. In a thread of its own, so that it answers also when the loop does not.
    #
    # @api private
    class Control
      def initialize(address, stats:, ready:, requests: -> { [] })
        @path = address.delete_prefix("unix://")
        @answers = {"/stats" => stats, "/requests" => requests}
        @ready = ready
      end

      # Listens and answers on a thread of its own.
      # @return [void]
      def start
        File.unlink(@path) if File.socket?(@path)
        @server = UNIXServer.new(@path)
        @pid = Process.pid
        @thread = Thread.new { loop { answer(@server.accept) } }
        self
      end

      # Stops answering and removes the socket's file.
      # @return [void]
      def stop
        @thread&.kill
        @server&.close
        File.unlink(@path) if @pid == Process.pid && File.socket?(@path)
      end

      # In a forked worker: the socket is the master's.
      def forget
        @server&.close
        @server = @thread = nil
      end

      # What a control socket answers to GET path.
      #
      # @return [String] JSON
      def self.ask(address, path = "/stats")
        UNIXSocket.open(address.delete_prefix("unix://")) do |socket|
          socket.write("GET #{path} HTTP/1.0\r\n\r\n")
          socket.read.split("\r\n\r\n", 2).last
        end
      end

      private

      def answer(socket)
        path = socket.gets("\r\n").to_s[/\AGET (\S+)/, 1]
        status, body = reply(path)
        socket.write("HTTP/1.0 #{status}\r\nContent-Type: application/json\r\n\r\n",
          "#{JSON.generate(body)}\n")
        socket.close_write # the end also when a fork in this moment has given a worker a copy
      rescue SystemCallError, IOError
        nil # the asker went away
      ensure
        socket.close
      end

      def reply(path)
        return readiness(@ready.call) if path == "/ready"

        found = @answers[path] or
          return ["404 Not Found", {error: "there are /stats /requests /ready"}]
        ["200 OK", found.call]
      end

      def readiness(ready)
        [ready ? "200 OK" : "503 Service Unavailable", {ready: ready}]
      end
    end
  end
end

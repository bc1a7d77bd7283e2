# frozen_string_literal: true

require_relative "apache_bench"
require_relative "served"

module Bench
  module Workloads
    # Connections that have asked once and stay: the memory they take. Then as many at once that do
    # not stay: ab with that concurrency.
    class IdleConnections < Served
      DEFAULTS = Served::DEFAULTS.merge(waiting: 10_000)
      REQUEST = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
      private_constant :REQUEST

      def before
        most = Process.getrlimit(:NOFILE).last
        Process.setrlimit(:NOFILE, [most, 65_536].min, most) # the server inherits it
        super
      end

      # @return [Hash] :value in MB more with the connections than without
      def measure
        check
        load(1)
        before = @server.memory_kb
        sockets = Array.new(params[:waiting]) { attempt { connect } }.compact
        sleep(0.5)
        more = (@server.memory_kb - before) / 1024.0
        answers = sockets.last(100).count { |socket| asks_again?(socket) }
        expect(answers == 100, "#{100 - answers} of 100 kept connections answered no more")
        sockets.each(&:close)
        storm
        { value: more, operations: sockets.size }
      end

      private

      def connect
        TCPSocket.new("127.0.0.1", @server.port).tap do |socket|
          socket.write(REQUEST)
          read(socket)
        end
      end

      def asks_again?(socket)
        socket.write(REQUEST)
        read(socket)
        true
      rescue SystemCallError, IOError
        false
      end

      def read(socket)
        answer = +""
        answer << socket.readpartial(4096) until answer.end_with?("Hello, World!")
      end

      # The shape of the article on fibers and EventMachine: 10,000 requests, 10,000 at once.
      def storm
        many = params[:waiting]
        answer = ApacheBench.run("http://127.0.0.1:#{@server.port}/hello", requests: many,
                                 at_once: many, cores: params[:load_cores])
        @metrics[:storm_rate] = answer[:rate]
        @metrics[:storm_failed] = answer[:failed]
      rescue RuntimeError => error
        wrong(error.message)
      end
    end
  end
end

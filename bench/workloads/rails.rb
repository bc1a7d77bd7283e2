# frozen_string_literal: true

require "json"
require_relative "rails/postgresql"
require_relative "rails/servers"

module Bench
  module Workloads
    # A Rails application behind a server, asked by a C program in a third process: so many requests
    # at a concurrency, or as many as fit into the sample.
    class Rails < Workload
      # every: each so many-th request is "/sleep"; 0: none. requests: 0: by time.
      # service_ms: how long the service that "/calls" asks takes.
      DEFAULTS = { server: "nb", clients: 200, requests: 0, path: "/one", every: 0, pool: 12,
                   service_ms: 50, warm_up: 500 }.freeze

      def before
        @postgresql = Postgresql.new.start
        @service = start_service if params[:path] == "/calls"
        @server = RailsServer.new(params[:server], environment).start
      rescue StandardError
        after
        raise
      end

      def after
        @server&.stop
        @postgresql&.stop
        Process.kill(:TERM, @service) if @service
      end

      # @return [Hash] :value in requests per second
      def measure
        warm_path = params[:path] == "/sleep" ? "/one" : params[:path]
        load(requests: params[:warm_up], every: 0, path: warm_path, clients: 50)
        cpu = @server.cpu
        answer = load(**params.slice(:requests, :every, :path, :clients))
        keep(answer)
        cpu = @server.cpu - cpu
        @metrics[:cpu_us_per_op] = cpu / answer["answers"] * 1e6
        { value: answer["answers"] / answer["elapsed"], operations: answer["answers"],
          elapsed: answer["elapsed"], cpu: cpu }
      ensure
        @metrics[:memory_mb] = @server.memory_mb
      end

      private

      def keep(answer)
        @errors += answer["errors"]
        @first_error ||= "#{@errors} answers are lost or no 200" if @errors.positive?
        @metrics.merge!(answer.slice("p50_ms", "p99_ms", "max_ms", "fast_p50_ms", "fast_p99_ms")
                              .transform_keys(&:to_sym))
        @metrics[:took_s] = answer["elapsed"]
      end

      def load(requests:, every:, path:, clients:)
        mix = every.positive? ? [every, "/sleep"] : []
        command = [Compiled.program("c_mix"), @server.port, clients, requests, seconds, path, *mix]
        command.map!(&:to_s)
        text = IO.popen([*command, { err: File::NULL }], &:read)
        raise "#{command.join(" ")} failed" if text.empty?

        JSON.parse(text)
      end

      def environment
        { "BENCH_DB_HOST" => "127.0.0.1", "BENCH_DB_PORT" => @postgresql.port.to_s,
          "BENCH_DB_USER" => @postgresql.user, "BENCH_POOL" => params[:pool].to_s,
          "BENCH_SERVICE" => @service_url }
      end

      def start_service
        port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
        @service_url = "http://127.0.0.1:#{port}/"
        Process.spawn(RbConfig.ruby, "-I#{File.join(ROOT, "lib")}", File.join(ROOT, "exe", "nb"),
                      "delayd", "--port", port.to_s, "--delay", params[:service_ms].to_s, "-q")
      end
    end
  end
end

# frozen_string_literal: true

require "json"
require_relative "../frame/kernel_file"
require_relative "apache_bench"
require_relative "kernel_drops"
require_relative "rails/postgresql"
require_relative "rails/servers"

module Bench
  module Workloads
    # A Rails application behind a server, asked by a C program in a third process, or by ab: so
    # many requests at a concurrency, or as many as fit into the sample.
    class Rails < Workload
      # every: each so many-th request is "/sleep"; 0: none. requests: 0: by time.
      # service_ms: how long the service that "/calls" asks takes. load: "c" or "ab", which needs a
      # number of requests, and asks each over a connection of its own.
      DEFAULTS = { server: "nb", clients: 200, requests: 0, path: "/one", every: 0, pool: 12,
                   service_ms: 50, warm_up: 500, load: "c" }.freeze
      # Of the answers: how many milliseconds this share of them took at most.
      TIMES = %w[p50_ms p66_ms p75_ms p80_ms p90_ms p95_ms p98_ms p99_ms longest_ms fast_p50_ms
                 fast_p99_ms].freeze
      # Descriptors of a server and its clients.
      DESCRIPTORS = 65_536
      # What the C program is told.
      LOAD = %i[requests every path clients].freeze
      # A sample lasts a second at least for so many clients.
      CLIENTS_PER_SECOND = 200.0
      private_constant :TIMES, :DESCRIPTORS, :LOAD, :CLIENTS_PER_SECOND

      def before
        most = Process.getrlimit(:NOFILE).last
        Process.setrlimit(:NOFILE, [most, DESCRIPTORS].min, most)
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
        answer, dropped = KernelDrops.count do
          params[:load] == "ab" ? ask_by_ab : load(**params.slice(*LOAD))
        end
        @metrics.merge!(dropped)
        keep(answer)
        cpu = @server.cpu - cpu
        @metrics[:cpu_us_per_op] = cpu / answer["answers"] * 1e6 if answer["answers"].positive?
        { value: answer["answers"] / answer["elapsed"], operations: answer["answers"],
          elapsed: answer["elapsed"], cpu: cpu, output: answer["output"] }.compact
      ensure
        @metrics[:memory_mb] = @server.memory_mb
      end

      private

      def keep(answer)
        @errors += answer["errors"]
        @first_error ||= "#{@errors} answers are lost or no 200" if @errors.positive?
        expect(answer["answers"].positive?, "no answer within #{duration} s: #{@server.log}")
        @metrics.merge!(answer.slice(*TIMES).transform_keys(&:to_sym))
        @metrics[:took_s] = answer["elapsed"]
        @metrics[:failed] = answer["errors"]
      end

      # The same words as the C program's.
      def ask_by_ab
        told = ApacheBench.run("http://127.0.0.1:#{@server.port}#{params[:path]}",
                               requests: params[:requests], at_once: params[:clients])
        { "answers" => params[:requests] - told[:failed], "errors" => told[:failed],
          **told.slice(:elapsed, :output).transform_keys(&:to_s),
          **told[:within].transform_keys(&:to_s) }
      end

      def load(requests:, every:, path:, clients:)
        mix = every.positive? ? [every, "/sleep"] : []
        command = [Compiled.program("c_mix"), @server.port, clients, requests, duration, path, *mix]
        command.map!(&:to_s)
        text = IO.popen([*command, { err: File::NULL }], &:read)
        raise "#{command.join(" ")} failed" if text.empty?

        JSON.parse(text)
      end

      # Long enough for several answers to each client: no answer takes longer than the sample.
      def duration = [seconds, params[:clients] / CLIENTS_PER_SECOND].max

      def environment
        { "BENCH_DB_HOST" => "127.0.0.1", "BENCH_DB_PORT" => @postgresql.port.to_s,
          "BENCH_DB_USER" => @postgresql.user, "BENCH_POOL" => params[:pool].to_s,
          "BENCH_SERVICE" => @service_url }
      end

      def start_service
        port = Listening.free_port
        @service_url = "http://127.0.0.1:#{port}/"
        Process.spawn(RbConfig.ruby, "-I#{File.join(ROOT, "lib")}", File.join(ROOT, "exe", "nb"),
                      "delayd", "--port", port.to_s, "--delay", params[:service_ms].to_s, "-q")
      end
    end
  end
end

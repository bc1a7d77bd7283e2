# frozen_string_literal: true

require "json"
require "net/http"
require_relative "../frame/kernel_file"
require_relative "apache_bench"
require_relative "kernel_drops"
require_relative "server_process"
require_relative "things"

module Bench
  module Workloads
    # A page that looks three things up, asked by ab: as many requests as there are clients, each of
    # them once.
    class Lookups < Workload
      DEFAULTS = { store: "mysql2", port: nil, pool: 50, clients: 10_000, workers: 1, cores: [0],
                   load_cores: [1], warm_up: 2_000 }.freeze
      # At most so many of them at once.
      WARM_CLIENTS = 100

      def before
        most = Process.getrlimit(:NOFILE).last
        Process.setrlimit(:NOFILE, [most, 65_536].min, most) # the server inherits it
        @things = Things.new(params[:store], params[:port], cores: params[:load_cores])
        @server = ServerProcess.new(runtime, application: "lookups.ru", cores: params[:cores],
                                             environment: environment)
      end

      # @return [Hash] :value in requests per second
      def measure
        ask(params[:warm_up], [WARM_CLIENTS, params[:warm_up]].min)
        cpu = @server.cpu
        collected = collected()
        answer, dropped = KernelDrops.count { ask(params[:clients], params[:clients]) }
        @metrics.merge!(dropped)
        cpu = @server.cpu - cpu
        keep(answer, cpu)
        keep_collected(collected)
        { value: answer[:rate], operations: params[:clients], cpu: cpu, elapsed: answer[:elapsed],
          output: answer[:output] }
      end

      # Whatever happened: a cell leaves nothing behind.
      def run
        super
      ensure
        @server&.stop
        @things&.stop
      end

      private

      def environment
        { "BENCH_STORE" => params[:store], "BENCH_PORT" => @things.port.to_s,
          "BENCH_POOL" => params[:pool].to_s, "RACK_ENV" => "production" }
      end

      def ask(requests, at_once)
        ApacheBench.run("http://127.0.0.1:#{@server.port}/things", requests: requests,
                        at_once: at_once, cores: params[:load_cores])
      end

      def keep(answer, cpu)
        failed = answer[:failed]
        @errors += failed
        @first_error ||= "#{failed} of #{params[:clients]} requests failed" if failed.positive?
        @metrics.merge!(answer[:within], failed: failed, memory_mb: @server.memory_kb / 1024.0,
                                         cpu_us_per_op: cpu / params[:clients] * 1e6)
      end

      # What the server's Ruby says of its garbage collector; it has one process.
      def collected
        JSON.parse(Net::HTTP.get(URI("http://127.0.0.1:#{@server.port}/gc")), symbolize_names: true)
      end

      def keep_collected(before)
        spent = collected.merge(before) { |_, after, earlier| after - earlier }
        @metrics.merge!(gc_count: spent[:count], gc_ms: spent[:time],
                        objects_per_op: spent[:total_allocated_objects].fdiv(params[:clients]))
      end
    end
  end
end

# frozen_string_literal: true

require "net/http"
require_relative "server_process"

module Bench
  module Workloads
    # Clients that ask one page after the other of a server on one core: the first for the report of
    # 400 queries only, the others for light pages, every 20th of which waits instead.
    class Pages < Workload
      DEFAULTS = { clients: 19, port: nil, pool: 12, workers: 1, cores: [0],
load_cores: [1] }.freeze

      def before
        database = "postgresql://postgres@127.0.0.1:#{params[:port]}/nb"
        environment = { "BENCH_DATABASE" => database, "BENCH_POOL" => params[:pool].to_s,
                        "RACK_ENV" => "production" }
        @server = ServerProcess.new(runtime, application: "pages.ru", cores: params[:cores],
                                             environment: environment)
      end

      # @return [Hash] :value in requests per second
      def measure
        times = Hash.new { |hash, path| hash[path] = [] }
        cpu = @server.cpu
        sample = timed do
          stop = now + seconds
          Array.new(params[:clients]) { |index| Thread.new {
 ask(index, stop, times) } }.each(&:join)
        end
        cpu = @server.cpu - cpu
        count = times.values.sum(&:size)
        light = times["/light"]
        @metrics.merge!(report_ms: share(times["/report"], 0.5), p50_ms: share(light, 0.5),
                        p99_ms: share(light, 0.99), cpu_us_per_op: cpu / count * 1e6)
        sample.merge(value: count / sample[:elapsed], operations: count, cpu: cpu)
      end

      # Whatever happened: a cell leaves nothing behind.
      def run
        super
      ensure
        @server&.stop
      end

      private

      def ask(index, stop, times)
        random = Random.new(index)
        Net::HTTP.start("127.0.0.1", @server.port, read_timeout: 120) do |http|
          while now < stop
            path = path_for(index, random)
            asked = now
            answer = http.get(path)
            expect(answer.body == "page", "status #{answer.code} for #{path}")
            times[path] << (now - asked)
          end
        end
      end

      def path_for(index, random)
        return "/report" if index.zero?

        random.rand(20).zero? ? "/waits" : "/light"
      end

      # Milliseconds within which that share of the answers came.
      def share(times, share)
        times.sort[[(times.size * share).floor, times.size - 1].min]&.*(1000)
      end
    end
  end
end

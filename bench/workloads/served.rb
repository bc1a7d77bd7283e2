# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"
require "net/http"
require "open3"
require_relative "server_process"

module Bench
  module Workloads
    # A web server on one core, wrk on the other. The server is warmed up, then measured; its answer
    # is compared before and after, the count of bytes must fit, and all that went wrong is counted.
    class Served < Workload
      DEFAULTS = { kind: "hello", connections: 64, port: nil, pool: 50, workers: 1, cores: [0],
                   load_cores: [1] }.freeze
      # What is asked: path, what is sent, length of the answer's body.
      KINDS = {
        "hello" => { path: "/hello", bytes: 13 },
        "sleep" => { path: "/sleep", bytes: 13 },
        "sql" => { path: "/sql", bytes: 5 },
        "mix" => { path: "/mix", bytes: 5 },
        "json" => { path: "/json", bytes: 1062 },
        "headers" => { path: "/hello", bytes: 13, headers: 10 },
        "post_1k" => { path: "/post", bytes: 4, body: 1024 },
        "post_1m" => { path: "/post", bytes: 7, body: 1_048_576 },
        "big" => { path: "/big", bytes: 3_000_000 },
        "stream" => { path: "/stream", bytes: 32_000 },
        "file" => { path: "/file", bytes: 100_000 },
        "burn" => { path: "/burn", bytes: 9 }
      }.freeze
      SCRIPT = File.expand_path("../served/load.lua", __dir__)
      WRONG = { "status" => "answers other than 2xx" }.freeze
      private_constant :SCRIPT, :WRONG

      def before
        @kind = self.class::KINDS.fetch(params[:kind])
        params[:file] = File.join(Dir.tmpdir, "bench-file-#{Process.pid}")
        File.binwrite(params[:file], Random.new(2008).bytes(100_000))
        @server = ServerProcess.new(runtime, application: application, cores: params[:cores],
                                             environment: environment)
      end

      # @return [Hash] :value in requests per second
      def measure
        check
        load(1)
        rest
        processes = @server.pids
        cpu = @server.cpu
        answer = load([seconds.ceil, 1].max)
        cpu = @server.cpu - cpu
        expect((processes - @server.pids).empty?, "a process of the server has ended")
        check
        count(answer)
        requests = answer["requests"]
        @metrics[:share_percent] = cpu / answer["seconds"] / Etc.nprocessors * 100
        @metrics.merge!(**percentiles(answer), longest_ms: answer["longest"],
                        cpu_us_per_op: requests.zero? ? nil : cpu / requests * 1e6,
                        memory_mb: @server.memory_kb / 1024.0)
        { value: good(answer) / answer["seconds"], operations: requests, cpu: cpu,
          elapsed: answer["seconds"] }
      end

      # Whatever happened: a cell leaves nothing behind.
      def run
        super
      ensure
        @server&.stop
        FileUtils.rm_f(params[:file]) if params[:file]
      end

      private

      # A file in bench/served/.
      def application = "app.ru"

      def database
        params[:port] && "postgresql://postgres@127.0.0.1:#{params[:port]}/nb"
      end

      def environment
        { "BENCH_FILE" => params[:file], "BENCH_POOL" => params[:pool].to_s,
          "BENCH_DATABASE" => database, "RACK_ENV" => "production" }
      end

      def load(duration)
        url = "http://127.0.0.1:#{@server.port}#{@kind[:path]}"
        command = ["wrk", "-t1", "-c#{params[:connections]}", "-d#{duration}s", "--latency",
                   "--timeout", "10s", "-s", SCRIPT, url]
        output, status = Open3.capture2e(load_environment, *ServerProcess.pin(params[:load_cores],
                                                                              command))
        raise "wrk failed: #{output.lines.first.to_s.strip}; #{@server.log}" unless status.success?

        JSON.parse(output.lines.last)
      end

      def load_environment
        { "LOAD_METHOD" => @kind[:body] ? "POST" : "GET", "LOAD_BODY" => @kind[:body]&.to_s,
          "LOAD_HEADERS" => @kind[:headers]&.to_s }
      end

      # Answers with the right status.
      def good(answer) = [answer["requests"] - answer["status"], 0].max

      # In a short sample on a crowded machine, wrk loses count of its pipelined answers and says 0.
      def percentiles(answer)
        %w[p50 p99].to_h { |name| [:"#{name}_ms", (answer[name] if answer[name].positive?)] }
      end

      def count(answer)
        %w[connect read write timeout status].each do |what|
          number = answer[what]
          next if number.zero?

          @errors += number
          @first_error ||= "#{number} #{WRONG.fetch(what, "#{what} errors")}"
        end
        expect(answer["requests"].positive?, "no answer: #{@server.log}")
        expect(answer["bytes"] >= good(answer) * @kind[:bytes], "answers were too short")
      end

      # One request whose answer is looked at.
      def check
        body = "x" * @kind[:body].to_i if @kind[:body]
        Net::HTTP.start("127.0.0.1", @server.port) do |http|
          answer = http.send_request(body ? "POST" : "GET", @kind[:path], body)
          expect(answer.code == "200", "status #{answer.code} to a single request")
          expect(right?(answer.body), "a body of #{answer.body.bytesize} bytes")
        end
      rescue SystemCallError, IOError => error
        wrong("#{error.class} in a single request: #{error.message}")
      end

      def right?(body)
        return body.bytesize == @kind[:bytes] unless params[:kind] == "file"

        body.b == File.binread(params[:file])
      end
    end
  end
end

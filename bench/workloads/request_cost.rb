# frozen_string_literal: true

require_relative "served"

module Bench
  module Workloads
    # What one keep-alive request makes a server allocate and ask of the kernel: counted, not timed,
    # so that load on the machine does not matter. Objects come from Ruby's own counter, which the
    # application tells; system calls from strace.
    class RequestCost < Served
      DEFAULTS = Served::DEFAULTS.merge(requests: 300)

      # @return [Hash] :value in objects per request
      def measure
        check
        serial { |ask| 100.times { ask.call("/hello") } }
        objects = serial { |ask| objects_per_request(ask) } if runtime.compiled.empty?
        alone = serial { |ask| traced { params[:requests].times { ask.call("/hello") } } }
        @metrics[:syscalls_alone] = alone / params[:requests].to_f
        @metrics[:syscalls_busy] = busy
        { value: objects, operations: params[:requests] }
      end

      private

      def serial
        TCPSocket.open("127.0.0.1", @server.port) { |socket| yield ->(path) { ask(socket, path) } }
      end

      def ask(socket, path)
        socket.write("GET #{path} HTTP/1.1\r\nHost: localhost\r\n#{headers}\r\n")
        answer = +""
        answer << socket.readpartial(4096) until (head = answer.index("\r\n\r\n"))
        length = answer[/^content-length:\s*(\d+)/i, 1].to_i
        answer << socket.readpartial(4096) while answer.bytesize < head + 4 + length
        expect(answer.start_with?("HTTP/1.1 200"), "status line #{answer.lines.first.inspect}")
        answer.byteslice(head + 4, length)
      end

      # Ten names that browsers send.
      def headers
        @headers ||= %w[Accept Accept-Language Cache-Control Cookie DNT Origin Pragma Referer
                        User-Agent X-Requested-With].first(params[:headers]).map do |name|
          "#{name}: value of #{name}\r\n"
        end.join
      end

      # What is counted is one request less than what lies between the two readings.
      def objects_per_request(ask)
        first = ask.call("/objects").to_i
        params[:requests].times { ask.call("/hello") }
        (ask.call("/objects").to_i - first) / (params[:requests] + 1.0)
      end

      def busy
        answer = nil
        calls = traced { answer = load(1) }
        calls / answer["requests"].to_f
      end

      # @return [Integer] system calls of all the server's threads meanwhile
      def traced
        summary = File.join(Dir.tmpdir, "bench-strace-#{Process.pid}")
        tracer = attach(summary)
        yield
        Process.kill(:INT, tracer)
        Process.wait(tracer)
        File.read(summary)[/^\s*100\.00\s+\S+\s+(?:\S+\s+)?(\d+)\s/, 1].to_i
      ensure
        FileUtils.rm_f(summary)
      end

      # strace tells on standard error when it has attached itself to each process.
      def attach(summary)
        targets = @server.pids.flat_map { |pid| ["-p", pid.to_s] }
        output, input = IO.pipe
        tracer = Process.spawn("strace", "-f", "-c", "-o", summary, *targets, err: input)
        input.close
        @server.pids.size.times { output.gets }
        Thread.new { output.read } # it must never wait for us
        tracer
      end
    end
  end
end

# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest"
require "neverblock"
require "neverblock/cli/delay_server"
require "net/http"
require "rbconfig"
require "tmpdir"
require_relative "../support/databases"
require_relative "../support/ports"
require_relative "check"
require_relative "collector"

module Tracing
  # Serves the application of app.ru with one vendor's agent, sends it overlapping requests, ends it
  # by TERM, and compares what has come to the collector.
  class Run
    ROOT = File.expand_path("../..", __dir__)
    # How each server is started; the port comes last.
    SERVERS = {
      "nb" => [File.join(ROOT, "exe/nb"), "serve", "app.ru", "-C", "neverblock.rb", "--quiet",
               "-p"],
      "cluster" => [File.join(ROOT, "exe/nb"), "serve", "app.ru", "-C", "neverblock.rb", "--quiet",
                    "-w", "2", "-p"],
      "puma" => ["-rneverblock", "-S", "puma", "-C", "puma.rb", "app.ru", "-p"]
    }.freeze
    SECONDS = 60
    # One of so many requests raises.
    FAIL_EACH = 10

    # @return [String] what the server has printed
    attr_reader :log
    # @return [Check]
    attr_reader :check

    # @param vendor [Module] of vendors/, with `collector`, `environment`, `headers`, `spans`
    # @param server [String] of SERVERS
    # @param kinds [Integer] of the ways to start work, how many in each request
    def initialize(vendor, server: "nb", kinds: 4, concurrency: 100)
      @vendor = vendor
      @server = server
      @kinds = kinds
      @concurrency = concurrency
    end

    # @param count [Integer] requests
    # @return [self]
    def call(count)
      @collector = @vendor.collector
      sent = Array.new(count) { |index| request(index) }
      serve { send_all(sent) }
      spans = @vendor.spans(@collector.requests)
      @check = Check.new(spans, sent, databases: @vendor.databases?)
      self
    rescue StandardError => error
      raise error.class, "#{error.message}\n#{@log}"
    ensure
      @collector&.close
    end

    private

    # Every second request continues the trace of its client.
    def request(index)
      token = "t#{index}"
      trace, parent = @vendor.ids(index) if index.odd?
      kinds = index % FAIL_EACH == 3 ? :fail : Tracing.kinds_of(token, @vendor.kinds, @kinds)
      Check::Sent.new(token, kinds, trace, parent)
    end

    def serve
      Dir.mktmpdir("nb-tracing") do |folder|
        @port = Ports.free
        pid = start(folder)
        begin
          wait_for_server(pid)
          yield
        ensure
          Process.kill(:TERM, pid)
          ended = Process.detach(pid).join(SECONDS) || Process.kill(:KILL, pid)
          @log = File.read("#{folder}/log")
        end
        raise "the server did not end:\n#{@log}" unless ended.is_a?(Thread)
      end
    end

    def start(folder)
      environment = {
        "TRACING_VENDOR" => @vendor.name, "TRACING_BACKEND" => backend.port.to_s,
        "TRACING_POSTGRESQL" => Databases.postgresql.url, "TRACING_REDIS" => Databases.redis.url,
        **@vendor.environment(@collector.port, folder)
      }
      Process.spawn(environment, RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" },
                    *SERVERS.fetch(@server), @port.to_s,
                    chdir: __dir__, out: "#{folder}/log", err: %i[child out])
    end

    def backend
      Servers.fetch("tracing-backend") do |port, _|
        [RbConfig.ruby, "-I#{ROOT}/lib", File.join(ROOT, "exe/nb"), "serve", "--quiet",
         File.join(__dir__, "backend.ru"), "-p", port.to_s]
      end
    end

    def wait_for_server(pid)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SECONDS
      TCPSocket.new("127.0.0.1", @port).close
    rescue Errno::ECONNREFUSED
      raise "no server" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline ||
                           Process.wait(pid, Process::WNOHANG)

      sleep 0.02
      retry
    end

    # Some agents connect when requests come, and send no ids before; in each worker for itself. So
    # many at once come to all of them.
    def wait_for_agent
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SECONDS
      while NB.map(1..20, concurrency: 20) { get("/ready/#{Check::IDLE}", {}).body }.include?("{}")
        raise "no agent" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

        sleep 0.1
      end
    end

    def send_all(sent)
      NB.run do
        wait_for_agent
        NB.map(sent.shuffle, concurrency: @concurrency) do |request|
          headers = request.trace ? @vendor.headers(request.trace, request.parent) : {}
          fails = request.kinds == :fail
          path = "/#{fails ? "fail" : "work"}/#{request.token}"
          answer = get(fails ? path : "#{path}?#{request.kinds.join(",")}", headers)
          raise "#{request.token}: #{answer.code} #{answer.body}" unless
            answer.code == (fails ? "500" : "200")
        end
        get("/idle/#{Check::IDLE}", {})
      end
    end

    def get(path, headers)
      Net::HTTP.start("127.0.0.1", @port, read_timeout: SECONDS) { |http| http.get(path, headers) }
    end
  end
end

# frozen_string_literal: true

require "fileutils"
require "net/http"
require "rbconfig"
require "tmpdir"
require_relative "../../frame/listening"

module Bench
  module Workloads
    # One way to serve a Rails application: processes in one group, on one port.
    class RailsServer
      # Seconds until it must answer, and until it must have ended.
      PATIENCE = 60
      # What a server asks of the application: the lines that its users add.
      SETTINGS = {
        "nb" => { "BENCH_ADAPTER" => "neverblock_postgresql", "BENCH_POOL_KEY" => "connections",
                  "BENCH_ISOLATION" => "fiber" },
        "falcon" => { "BENCH_ISOLATION" => "fiber" }
      }.freeze
      private_constant :PATIENCE, :SETTINGS


      # @return [Integer]
      attr_reader :port

      # @param kind [String] nb, falcon, puma5 (with 5 threads) or pumas4 (four, each with one
      #   thread, behind nginx)
      # @param environment [Hash] of the application
      # @param home [String] its folder
      # @param path [String] what answers with 200 once it serves
      def initialize(kind, environment, home: __dir__, path: "/one")
        @kind = kind
        @home = home
        @path = path
        @environment = environment.merge(SETTINGS.fetch(kind, {}), "RAILS_ENV" => "production",
                                         "RACK_ENV" => "production")
        @pids = []
        @folder = Dir.mktmpdir("nb-bench-rails")
        @environment["BUNDLE_GEMFILE"] = gemfile if kind == "falcon"
      end

      # @return [self]
      def start
        @port = @kind.start_with?("pumas") ? behind_nginx(Integer(@kind[5..])) : single
        wait_for(@port, @pids.last)
        self
      end

      # @return [void]
      def stop
        children = stats.map { |stat| Integer(stat.first) } - @pids
        @pids.each { |pid| signal(:TERM, pid) }
        @pids.each { |pid| Process.detach(pid).join(10) || signal(:KILL, pid) }
        children.each { |pid| signal(:KILL, pid) } # what is left where it had to be killed
        FileUtils.rm_rf(@folder)
      end

      # @return [Float] CPU seconds of all its processes
      def cpu
        stats.sum { |stat| stat[12].to_i + stat[13].to_i } / 100.0
      end

      # @return [Float] their memory in MB, shared pages by their share
      def memory_mb
        stats.sum do |pid, *|
          File.read("/proc/#{pid}/smaps_rollup")[/^Pss:\s+(\d+)/, 1].to_i
        rescue SystemCallError
          0 # it has just ended
        end / 1024.0
      end

      # @return [String] the end of what they printed
      def log
        Dir[File.join(@folder, "*.log")].map { |path| File.readlines(path).last(5).join }.join
      end

      private

      def single
        port = Listening.free_port
        spawn_one(command(port))
        port
      end

      def behind_nginx(count)
        ports = Array.new(count) { Listening.free_port.tap { |port| spawn_one(puma(port, 1)) } }
        ports.zip(@pids) { |port, pid| wait_for(port, pid) }
        port = Listening.free_port
        File.write(File.join(@folder, "nginx.conf"), nginx(port, ports))
        spawn_one(["nginx", "-p", @folder, "-c", "nginx.conf", "-g", "daemon off;"])
        port
      end

      def command(port)
        case @kind
        when "nb"
          [*ruby, File.join(ROOT, "exe", "nb"), "serve", "-C", "-", "-q", "-b",
           "tcp://127.0.0.1:#{port}"]
        when "falcon"
          [*ruby, Gem.bin_path("falcon", "falcon"), "serve", "--count", "1", "--bind",
           "http://127.0.0.1:#{port}"]
        else puma(port, Integer(@kind[/\d+/]))
        end
      end

      # Falcon asks Bundler, which would find the Gemfile of this project.
      def gemfile
        gems = %w[activerecord railties pg falcon].map { |name| "gem #{name.dump}\n" }
        File.join(@folder, "Gemfile").tap do |path|
          File.write(path, "source Gem.sources.first.uri.to_s\n#{gems.join}")
        end
      end

      def puma(port, threads)
        [*ruby, Gem.bin_path("puma", "puma"), "-C", "-", "-t", "#{threads}:#{threads}", "-b",
         "tcp://127.0.0.1:#{port}?backlog=4096"]
      end

      # With the switches of the cell.
      def ruby
        yjit = defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?
        [RbConfig.ruby, *("--yjit" if yjit), "-I#{File.join(ROOT, "lib")}"]
      end

      def nginx(port, ports)
        <<~CONF
          worker_processes 1; pid nginx.pid; error_log nginx.log;
          events { worker_connections 8192; }
          http {
            access_log off;
            upstream rails {
              least_conn; keepalive #{ports.size};
              #{ports.map { |one| "server 127.0.0.1:#{one} max_fails=0;" }.join(" ")}
            }
            server {
              listen 127.0.0.1:#{port} backlog=4096;
              keepalive_requests 1000000;
              location / {
                proxy_pass http://rails; proxy_http_version 1.1; proxy_set_header Connection "";
                proxy_read_timeout 300s;
              }
            }
          }
        CONF
      end

      def spawn_one(command)
        log = File.join(@folder, "#{@pids.size}.log")
        # In the group of the cell, so that they end with it, however that ends.
        @pids << Process.spawn(@environment, *command, chdir: @home, in: File::NULL, out: log,
                                                       err: %i[child out])
      end

      # @param pid [Integer] of the process behind the port
      def wait_for(port, pid)
        Listening.wait(pid, PATIENCE, pause: 0.05) { answers?(port) }
      rescue RuntimeError => error
        raise "#{@kind} #{error.message}: #{log}"
      end

      def answers?(port)
        answer = Net::HTTP.get_response("127.0.0.1", @path, port)
        raise "answers #{answer.code}" unless answer.code == "200"

        true
      rescue SystemCallError, EOFError
        false
      end

      # Of each of its processes the fields of proc(5), without the name: pid, state, parent …; the
      # ticks in user and system mode are the 12th and 13th.
      def stats
        all = Dir["/proc/[0-9]*/stat"].filter_map do |path|
          pid, rest = File.read(path).split(/ \(.*\) /, 2)
          [pid, *rest.split]
        rescue Errno::ENOENT, Errno::ESRCH
          nil
        end
        family = @pids.map(&:to_s)
        while (children = all.select { |stat| family.include?(stat[2]) }.map(&:first) - family).any?
          family += children
        end
        all.select { |stat| family.include?(stat.first) }
      end

      def signal(name, pid)
        Process.kill(name, pid)
      rescue Errno::ESRCH
        nil
      end
    end
  end
end

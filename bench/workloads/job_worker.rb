# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require "yaml"
require_relative "session_processes"

module Bench
  module Workloads
    # One way to run the jobs of a queue: its worker and what belongs to it, in a session of their
    # own.
    class JobWorker
      include SessionProcesses

      # The queue of each kind of worker, and whether NeverBlock runs it.
      KINDS = { "threads" => ["solid_queue", false], "async" => ["solid_queue", false],
                "nb" => ["solid_queue", true], "sidekiq" => ["sidekiq", false] }.freeze
      # Connections of a worker with fibers, and those of a worker with threads beside one for each.
      CONNECTIONS = 12
      BESIDE = 5
      HERE = File.join(__dir__, "jobs")
      private_constant :CONNECTIONS, :BESIDE, :HERE

      # @param kind [String] of {KINDS}
      # @param database [String] URL, without an adapter: //user@host:port/name
      # @param environment [Hash] of the application
      # @param at_once [Integer] jobs
      # @return [Hash] the environment of its application
      def self.environment(kind, database, environment, at_once: 1)
        queue, ours = KINDS.fetch(kind)
        fibers = ours || kind == "async"
        pool = fibers ? CONNECTIONS : at_once + BESIDE
        adapter, size = %w[postgresql max_connections]
        adapter, size = %w[neverblock-postgresql connections] if ours
        environment.merge("BENCH_QUEUE" => queue, "BENCH_ADAPTER" => ("neverblock" if ours),
                          "BENCH_ISOLATION" => fibers ? "fiber" : "thread",
                          "DATABASE_URL" => "#{adapter}:#{database}?#{size}=#{pool}",
                          "RAILS_ENV" => "production")
      end

      # @param kind [String] of {KINDS}
      # @param at_once [Integer] jobs
      # @param environment [Hash] of {JobWorker.environment}
      def initialize(kind, at_once, environment)
        @folder = Dir.mktmpdir("nb-bench-jobs")
        command = kind == "sidekiq" ? sidekiq(at_once) : solid_queue(kind, at_once)
        @pid = Process.spawn(environment, *APART, *Runtime.ruby, "-I#{File.join(ROOT, "lib")}",
                             *command, in: File::NULL, out: log_file, err: log_file)
      end

      # @return [Boolean] whether it still runs
      def alive? = Process.wait(@pid, Process::WNOHANG).nil?

      # @return [String] the end of what it printed
      def log = File.readlines(log_file).last(5).join

      # @return [void]
      def stop
        end_session
        FileUtils.rm_rf(@folder)
      end

      private

      def log_file = File.join(@folder, "log")

      def solid_queue(kind, at_once)
        worker = { "queues" => "*", "polling_interval" => 0.05,
                   (kind == "threads" ? "threads" : "fibers") => at_once }
        [File.join(HERE, "worker.rb"), "-c", file("production" => { "workers" => [worker] }),
         "--skip-recurring"]
      end

      def sidekiq(at_once)
        [Gem.bin_path("sidekiq", "sidekiq"), "-C", file("concurrency" => at_once), "-r",
         File.join(HERE, "application.rb"), "-e", "production"]
      end

      def file(config)
        File.join(@folder, "queue.yml").tap { |path| File.write(path, YAML.dump(config)) }
      end
    end
  end
end

# frozen_string_literal: true

require_relative "job_worker"

module Bench
  module Workloads
    # Jobs that the worker of a queue runs, in a process of its own: the cell enqueues them and
    # waits for the rows that they leave.
    class Jobs < Workload
      # jobs: in all; nil: four for each that may run at once.
      DEFAULTS = { worker: "nb", at_once: 100, shape: "calls", milliseconds: 1000,
                   jobs: nil }.freeze
      # What a job is, by its shape.
      SHAPES = { "calls" => "CallJob", "streams" => "StreamJob", "computes" => "ComputeJob" }.freeze
      # Seconds until a worker is there, and until its jobs are done, beyond twice what they last.
      BIRTH = 30
      PATIENCE = 90
      private_constant :SHAPES, :BIRTH, :PATIENCE

      def before
        ports = params.fetch(:ports)
        @told = { "BENCH_SERVICE" => "http://127.0.0.1:#{ports.fetch(:delayd)}/",
                  "REDIS_URL" => "redis://127.0.0.1:#{ports.fetch(:redis)}/0" }
        @database = "//postgres@127.0.0.1:#{ports.fetch(:postgresql)}/nb"
        load_application
        start
      rescue StandardError
        after
        raise
      end

      def after = @worker&.stop

      # @return [Hash] :value in jobs per second, from the first job's start to the last one's end
      def measure
        count = params[:jobs] || (params[:at_once] * 4)
        job = Object.const_get(SHAPES.fetch(params[:shape]))
        cpu = @worker.cpu
        ActiveJob.perform_all_later(Array.new(count) { job.new(params[:milliseconds]) })
        wait_for(count)
        cpu = @worker.cpu - cpu
        took = Row.maximum(:ended) - Row.minimum(:began)
        keep(cpu, count, took)
        { value: count / took, operations: count, elapsed: took, cpu: cpu }
      end

      private

      # In this process, which only enqueues.
      def load_application
        sidekiq = JobWorker::KINDS.fetch(params[:worker]).first == "sidekiq"
        ENV.update(environment(sidekiq ? "sidekiq" : "threads"))
        require_relative "jobs/application"
        ActiveRecord::Migration.suppress_messages { create_tables }
        return unless sidekiq

        require "sidekiq/api"
        Sidekiq.redis { |redis| redis.call("FLUSHDB") }
      end

      def create_tables
        folder = Gem.loaded_specs["solid_queue"]&.full_gem_path
        load(Dir["#{folder}/lib/**/queue_schema.rb"].first) if folder
        ActiveRecord::Schema.define do
          create_table(:rows, force: true) { |t| t.float :began, :ended, null: false }
        end
      end

      def environment(worker)
        JobWorker.environment(worker, @database, @told, at_once: params[:at_once])
      end

      def start
        kind = params[:worker]
        @worker = JobWorker.new(kind, params[:at_once], environment(kind))
        eventually(BIRTH, "no worker") { born? }
      end

      def born?
        return Sidekiq::ProcessSet.new.size.positive? if defined?(Sidekiq)

        SolidQueue::Process.exists?(kind: "Worker")
      end

      def wait_for(count)
        most = 0
        waits = count * params[:milliseconds] / params[:at_once] / 1000
        eventually(PATIENCE + (2 * waits), "not all jobs were done") do
          done, connections = look
          most = [most, connections].max
          done >= count
        end
        @metrics[:connections] = most
      end

      # How many rows there are, and how many connections others have.
      def look
        ActiveRecord::Base.connection.select_rows(<<~SQL).first.map(&:to_i)
          SELECT (SELECT count(*) FROM rows),
                 (SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid())
        SQL
      end

      def keep(cpu, count, took)
        expect(Row.count == count, "#{Row.count} rows of #{count} jobs")
        @metrics.merge!(cpu_us_per_op: cpu / count * 1e6, took_s: took,
                        memory_mb: @worker.memory_kb / 1024.0)
      end

      def eventually(seconds, complaint)
        deadline = now + seconds
        until yield
          raise "#{complaint}: the worker ended: #{@worker.log}" unless @worker.alive?
          raise "#{complaint} within #{seconds} s: #{@worker.log}" if now > deadline

          sleep 0.05
        end
      end
    end
  end
end

# frozen_string_literal: true

module Bench
  # J1 to J3: the same rows of workers, jobs of another kind.
  module JobTables
    WORKERS = { "threads" => "Solid Queue, threads", "async" => "Solid Queue, fibers of async",
                "sidekiq" => "Sidekiq, threads", "nb" => "Solid Queue, NeverBlock" }.freeze

    # Jobs that wait for a second in all.
    #
    # @param shape [String] see {Workloads::Jobs}
    # @param at_once [Array<Integer>] jobs
    # @return [void]
    def waiting_jobs(shape, at_once: [25, 100, 1_000])
      differs <<~TEXT
        Four jobs for each that may run at once. The worker, its database and the service share the
        machine's two cores.
      TEXT
      jobs(shape, 1000, at_once: at_once) { |count| count }
    end

    # @param shape [String] see {Workloads::Jobs}
    # @param milliseconds [Integer] that a job lasts
    # @param at_once [Array<Integer>] jobs
    # @param settings [Hash] further ones of the workload
    # @yieldparam at_once [Integer]
    # @yieldreturn [Integer] the most jobs per second that the waits allow; without a block there
    #   is no such limit
    # @return [void]
    def jobs(shape, milliseconds, at_once:, **settings, &most)
      source article: "none: what the articles leave out", author: "NeverBlock", year: 2026
      axis :worker, WORKERS.keys, title: "worker", labels: WORKERS
      axis :at_once, at_once, title: "jobs at once"
      runtime "jobs"
      workload "jobs", shape: shape, milliseconds: milliseconds, **settings
      server :postgresql, :delayd, :redis
      ours
      lasts 12
      settings "Solid Queue" => "one worker process, polling every 50 ms",
               "Fibers" => "12 connections", "Threads" => "one connection each, and five"
      skip { |cell| cell[:at_once] == 1_000 && %w[threads sidekiq].include?(cell[:worker]) }
      again { |cell| cell[:worker] == "nb" }
      views(most)
    end

    private

    def views(most)
      name = @id.upcase
      view name, title: "Jobs per second", unit: "/s", rows: :worker, columns: :at_once,
                 compare: "nb", scale: :each do
        limit("if nothing but the waits took time") { |_, at_once| most.call(at_once) } if most
      end
      view "#{name} CPU", title: "CPU time of the worker per job", unit: "µs", better: :lower,
                          rows: :worker, columns: :at_once, metric: "cpu_us_per_op",
                          compare: "nb", amount: true
      view "#{name} memory", title: "Memory of worker and supervisor", unit: "MB", better: :lower,
                             rows: :worker, columns: :at_once, metric: "memory_mb", compare: "nb"
      view "#{name} connections", title: "Connections to the database", unit: "connections",
                                  better: :lower, rows: :worker, columns: :at_once,
                                  metric: "connections"
    end
  end
end

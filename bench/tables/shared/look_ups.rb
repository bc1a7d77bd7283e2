# frozen_string_literal: true

module Bench
  # I2 and I3: the same page and the same load over two kinds of store.
  module LookUps
    SERVERS = %w[puma puma_50 falcon nb_server].freeze

    # @param store [String] the article's
    # @param fibers [Hash{String => Numeric}] what it published, by metric
    # @param threads [Hash{String => Numeric}]
    # @return [void]
    def look_ups(store:, fibers:, threads:)
      axis :clients, [10_000, 1_000], title: "at once", quick: [10_000]
      workload "lookups"
      patience 180
      lasts 20
      again { |cell| cell[:runtime] == "nb_server" }
      views.each do |id, options|
        metric = options[:metric]
        view id, rows: :runtime, columns: :store, where: { clients: 10_000 },
                 compare: ("nb_server" unless metric == "failed"), **options do
          next unless fibers.key?(metric)

          published "EventMachine and fibers, 2014", { store => fibers[metric] }
          published "threads, 2014", { store => threads[metric] }, like: "puma"
        end
      end
      fewer
    end

    private

    def name = @id.upcase

    def views
      less = { better: :lower }
      { name => { title: "Requests per second", unit: "req/s", metric: "value" },
        "#{name} p99" => { title: "99 of 100 answers come within", unit: "ms", metric: "p99_ms",
                           **less },
        "#{name} memory" => { title: "Memory of the server after them", unit: "MB",
                              metric: "memory_mb", amount: true, **less },
        "#{name} failed" => { title: "Requests that failed", unit: "requests", metric: "failed",
                              **less } }
    end

    def fewer
      view "#{name} c=1000", title: "Requests per second, 1,000 at once", unit: "req/s",
                             rows: :runtime, columns: :store, where: { clients: 1_000 },
                             compare: "nb_server"
    end
  end
end

# frozen_string_literal: true

require_relative "percentiles"

module Bench
  # I2 and I3: the same page and the same load over two kinds of store.
  module LookUps
    SERVERS = %w[puma puma_50 falcon nb_server].freeze
    # What is counted and not compared.
    COUNTS = %w[failed listen_drops].freeze
    LABELS = { fibers: "EventMachine and fibers, 2014", threads: "threads, 2014" }.freeze
    # In whose colours.
    LIKE = { fibers: "published", threads: "puma" }.freeze

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
                 compare: ("nb_server" unless COUNTS.include?(metric)), **options do
          next unless fibers.key?(metric)

          published LABELS[:fibers], { store => fibers[metric] }, like: LIKE[:fibers]
          published LABELS[:threads], { store => threads[metric] }, like: LIKE[:threads]
        end
      end
      fewer
      stores.each { |one| shares(one, one == store ? { fibers: fibers, threads: threads } : {}) }
    end

    # What ab printed of the times, from 50 % to 100 %.
    #
    # @param times [Array<Integer>] in ms
    # @return [Hash{String => Integer}] by metric
    def shares_of(*times) = AB_SHARES.keys.zip(times).to_h

    private

    def stores = @fields[:axes].find { |axis| axis.name == :store }.values

    # The lines that ab prints below its rate.
    def shares(store, published)
      view "#{name} #{store} within", title: "So many of 100 answers come within, #{store}",
                                      unit: "ms", better: :lower, rows: :runtime,
                                      columns: AB_SHARES, across: "share of the answers",
                                      where: { store: store, clients: 10_000 } do
        published.each do |kind, numbers|
          published LABELS.fetch(kind), numbers.values_at(*AB_SHARES.keys), like: LIKE[kind]
        end
      end
    end

    def name = @id.upcase

    def views
      less = { better: :lower }
      { name => { title: "Requests per second", unit: "req/s", metric: "value" },
        "#{name} p99" => { title: "99 of 100 answers come within", unit: "ms", metric: "p99_ms",
                           **less },
        "#{name} memory" => { title: "Memory of the server after them", unit: "MB",
                              metric: "memory_mb", amount: true, **less },
        "#{name} failed" => { title: "Requests that failed", unit: "requests", metric: "failed",
                              **less },
        "#{name} drops" => { title: "SYNs that the kernel dropped, as too many connections waited",
                             unit: "SYNs", metric: "listen_drops", amount: true, **less },
        "#{name} GC" => { title: "Garbage collections meanwhile", unit: "collections",
                          metric: "gc_count", amount: true, **less },
        "#{name} GC time" => { title: "Time in the garbage collector meanwhile", unit: "ms",
                               metric: "gc_ms", amount: true, **less },
        "#{name} objects" => { title: "Objects that the server allocates per request",
                               unit: "objects", metric: "objects_per_op", amount: true, **less } }
    end

    def fewer
      view "#{name} c=1000", title: "Requests per second, 1,000 at once", unit: "req/s",
                             rows: :runtime, columns: :store, where: { clients: 1_000 },
                             compare: "nb_server"
    end
  end
end

# frozen_string_literal: true

module Bench
  # T1 to T6: TechEmpower's six pages, on every server in the same words.
  module TechEmpower
    SERVERS = %w[puma falcon iodine agoo itsi_server nb_server].freeze
    # A page that waits for the database keeps more of Puma's threads busy than five.
    DATABASE_SERVERS = %w[puma puma_50 falcon iodine iodine_50 agoo agoo_50 itsi_server
                          nb_server].freeze
    # All other rows are bare Rack.
    RODA = %w[puma_roda nb_roda].freeze
    # Of Rails, two pages are measured.
    RAILS = { "json" => %w[puma_rails nb_rails], "fortunes" => %w[puma_rails nb_rails] }.freeze
    # What TechEmpower asks of all.
    RULES = "Each answer has the headers Server and Date; nothing may be rendered or looked up " \
            "before the request."

    # @param page [String] see {Workloads::TechEmpower::KINDS}
    # @param quick [Array<Integer>]
    # @param columns [Hash{Symbol => Array<Integer>}] one axis: connections or queries
    # @return [void]
    def tech_empower(page, quick:, **columns)
      across, values = columns.first
      asks = !%w[plaintext json].include?(page)
      source article: "TechEmpower Framework Benchmarks", author: "TechEmpower", year: 2013
      claim RULES
      servers = asks ? DATABASE_SERVERS : SERVERS
      axis :runtime, [*servers, *RODA, *RAILS.fetch(page, [])], title: "server"
      axis across, values, title: across.to_s, quick: quick
      axis :workers, [1, 2], title: "processes", quick: [1]
      workload "tech_empower", kind: page
      server :postgresql if asks
      patience 60
      lasts 8
      again { |cell| cell[:runtime] == "nb_server" }
      { 1 => "", 2 => " two" }.each { |workers, word| measures(across, workers, word) }
    end

    private

    def measures(across, workers, word)
      name = "#{@id.upcase}#{word}"
      shared = { rows: :runtime, columns: across, compare: "nb_server",
                 where: { workers: workers } }
      processes = workers == 1 ? "one process" : "two processes"
      view name, title: "Requests per second, #{processes}", unit: "req/s", **shared
      view "#{name} CPU", title: "CPU time per request of all the server's processes, #{processes}",
                          unit: "µs", better: :lower, metric: "cpu_us_per_op", amount: true,
                          headline: workers == 1, **shared
      if workers > 1
        view "#{name} share", title: "Share of all cores that the server's processes had; wrk " \
                                     "and the database had the rest",
                              unit: "%", metric: "share_percent", amount: true,
                              **shared.except(:compare)
      end
      view "#{name} p99", title: "99 of 100 answers come within, #{processes}", unit: "ms",
                          better: :lower, metric: "p99_ms", **shared.except(:compare)
    end
  end
end

# frozen_string_literal: true

require_relative "shared/percentiles"

Bench.table "e4_ab" do
  title "Ten thousand requests at a time, asked by ab too"
  question "How does a server answer 10,000 requests, 1,000 or 10,000 at a time, over kept " \
           "connections and over a new one for each request?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "NeverBlock on Thin, ab with up to 1,000 at a time; the chart is a picture"
  differs <<~TEXT
    Rails 8.1, PostgreSQL 15, one process with a pool of 12, the action of E4. Both clients ask 10,000
    requests: the program in C over connections that it keeps (at 10,000 each of them asks once), and
    ab as the article ran it, over a connection for each. All run where they find room on the
    machine's cores, and all hold as many descriptors as they may. Each sample keeps all that ab
    printed.
  TEXT
  servers = %w[nb falcon puma12 puma5]
  loads = { "c" => "kept connections, C", "ab" => "ab" }
  axis :server, servers, title: "server", labels: Bench::RAILS_SERVERS
  axis :load, loads.keys, title: "client", labels: loads
  axis :clients, [10_000, 1_000], title: "at a time", quick: [10_000]
  runtime "rails"
  workload "rails", path: "/one", requests: 10_000
  lasts 20
  patience 180
  again { |cell| cell[:server] == "nb" }

  shared = { rows: :server, compare: "nb" }
  [10_000, 1_000].each do |clients|
    name = clients == 10_000 ? "E4 ab" : "E4 ab c=1000"
    words = "#{clients / 1000},000 at a time"
    view name, title: "Requests per second, #{words}", unit: "req/s", columns: :load,
               where: { clients: clients }, **shared
    view "#{name} p99", title: "99 of 100 answered within, #{words}", unit: "ms", better: :lower,
                        columns: :load, where: { clients: clients }, metric: "p99_ms", **shared
    view "#{name} failed", title: "Requests that failed, #{words}", unit: "requests",
                           better: :lower, rows: :server, columns: :load,
                           where: { clients: clients }, metric: "failed"
    view "#{name} drops", title: "SYNs that the kernel dropped, as too many connections " \
                                 "waited, #{words}",
                          unit: "SYNs", better: :lower, rows: :server, columns: :load,
                          where: { clients: clients }, metric: "listen_drops", amount: true
    loads.each do |load, label|
      title = "So many of 100 answers come within, #{words}: #{label}"
      view "#{name} #{load} within", title: title, unit: "ms", better: :lower, rows: :server,
                                     columns: Bench::AB_SHARES, across: "share of the answers",
                                     where: { clients: clients, load: load }
    end
  end
end

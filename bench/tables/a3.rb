# frozen_string_literal: true

Bench.table "a3" do
  title "Twenty requests to a server that takes a second"
  question "How long do 20 GETs with Net::HTTP take when each answer comes after one second?"
  source article: "Ruby Networking on Steroids", author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "Ruby 1.9.1, EventMachine server, FiberPool(20)"
  claim "NeverBlock: “they all return after approximately 1 second”; the blocking client " \
        "“finishes after around 20 seconds”. The graph exists only as an image."
  differs <<~TEXT
    The server is `nb delayd` instead of an EventMachine script, one process for all clients. Before
    the clock runs, 50 requests without delay warm each client up. The article's line
    `url = "…"; url.host` lacks a URI() and does not run; ours names host and port.
  TEXT
  axis :runtime, %w[blocking threads async carbon itsi nb], title: "client"
  axis :delay_ms, [1000], title: "server delay", unit: "ms"
  workload "requests", requests: 20, warm_up: 50
  server :delayd
  again { |cell| cell[:runtime] == "nb" }
  # Twenty seconds each, and sleeping does not vary.
  at_most(3) { |cell, _quick| cell[:runtime] == "blocking" }
  at_most(1) { |cell, quick| quick && cell[:runtime] == "blocking" }

  view "A3", title: "Time for 20 requests", unit: "s", better: :lower, metric: "batch_s", cpu: true,
             rows: :runtime, columns: :delay_ms, compare: "nb" do
    published "blocking, 2008", [20], like: "blocking"
    published "NeverBlock, 2008", [1], like: "nb"
    limit("ideal: the delay") { |_result, delay| delay / 1000.0 }
  end
end

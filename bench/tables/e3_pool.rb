# frozen_string_literal: true

Bench.table "e3_pool" do
  title "The heaviest mix with more connections"
  question "How long do 1,000 requests take, 100 of which wait a second in the database, when " \
           "the pool of the one process has 12 to 100 connections?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008, setup: "12 connections only"
  differs "The article measured a pool of 12; Rails 8.1 and PostgreSQL 15 as in E3."
  axis :clients, [200, 1000], title: "at a time", quick: [200], unit: "at a time"
  axis :pool, [12, 25, 50, 100], title: "pool of"
  axis :server, %w[nb]
  runtime "rails"
  workload "rails", requests: 1_000, every: 10
  lasts 10

  view "E3 pool", title: "1,000 requests, 100 of which wait a second", unit: "s", better: :lower,
                  rows: :clients, columns: :pool, where: { server: "nb" },
                  metric: "took_s" do
    limit("the sleeps alone: ⌈100/pool⌉ s") { |_, pool| (100.0 / pool).ceil }
  end
end

# frozen_string_literal: true

Bench.table "e2" do
  title "Ten requests that each wait a second in the database"
  question "How long do ten concurrent requests take whose action is one `select pg_sleep(1)`?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "Rails on Ruby 1.9, Thin, PostgreSQL; ab -n 10 -c 10"
  claim "“The result was 9X”, with one line changed in database.yml and one in production.rb."
  differs <<~TEXT
    Rails 8.1 in production mode with its usual middleware; PostgreSQL 15; the ten requests come from
    our own program in C (one connection each, as ab's), after 500 fast ones. The article prints
    1.75797 s for NeverBlock where 9.30 requests/s and the rest of its output say 1.075797. Puma and
    Falcon were not there in 2008. Every pool has 12 connections.
  TEXT
  servers = %w[nb falcon puma5 puma12 puma1]
  axis :server, servers, title: "server", labels: Bench::RAILS_SERVERS
  axis :clients, [10], title: "requests"
  runtime "rails"
  workload "rails", requests: 10, path: "/sleep"
  lasts 10

  view "E2", title: "Time for ten requests of a second", unit: "s", better: :lower, rows: :server,
             columns: :clients, metric: "took_s", compare: "nb" do
    published "Rails on Thin, 2008", [10.248252], like: "puma1"
    published "Rails on NeverBlock, 2008", [1.075797], like: "nb"
    limit("no less than") { 1.0 }
  end
end

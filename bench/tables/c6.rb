# frozen_string_literal: true

Bench.table "c6" do
  title "Queries while others compute"
  question "What is left of the gain when processes that only compute run beside?"
  source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)",
         year: 2008, setup: "an update of the article: RDoc running beside"
  claim "With RDoc beside, the gain was 51–76 %."
  differs <<~TEXT
    50 long queries that compute about 10 ms and ten short ones after each; beside them so many
    processes that loop.
  TEXT
  axis :runtime, %w[blocking threads nb], title: "client"
  axis :hogs, [0, 1, 2, 4], title: "processes beside"
  workload "pg_mix", kind: "cpu", long: 50, mult: 10
  gems "pg" => "1.7.0"
  server :postgresql
  patience 60
  lasts 3
  again { |cell| cell[:runtime] == "nb" }

  view "C6", title: "Time for 550 queries", unit: "s", better: :lower, rows: :runtime,
             columns: :hogs, compare: "nb"
  view "C6 gain", title: "Time that NeverBlock saves against blocking", unit: "%", rows: :runtime,
                  columns: :hogs, measured: false do
    derived "NeverBlock", like: "nb" do |result, hogs|
      times = %w[blocking nb].map { |one| result.median({ runtime: one, hogs: hogs }) }
      (1 - times[1].fdiv(times[0])) * 100 if times.all?
    end
    published "best with RDoc, 2008", { 1 => 76 }, like: "nb"
  end
end

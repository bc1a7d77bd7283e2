# frozen_string_literal: true

Bench.table "c6" do
  title "Queries while others compute"
  question "What is left of the gain while other processes compute or write to the disk, and " \
           "when the pools are made before or after a blocking run?"
  source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)",
         year: 2008, setup: "an update of the article: RDoc running beside"
  claim "With RDoc beside, the gain was 51–76 %. Pools made after the blocking run make that " \
        "run a little faster."
  differs <<~TEXT
    50 long queries that compute about 10 ms and ten short ones after each; meanwhile, so many
    processes that loop, or one that writes 16 MB again and again, each time to the disk
    (fdatasync). RDoc did both. Otherwise each row runs alone in its process. Only in the last two columns is
    there what the article's process had: for the blocking row, two pools of 100 fibers and 12
    connections that idle, or none; for the others, a blocking run between making these and using
    them, or before both.
  TEXT
  axis :runtime, %w[blocking threads nb], title: "client"
  beside = { 0 => "nothing", 1 => "1 computes", 2 => "2 compute", 4 => "4 compute",
             "disk" => "1 writes to the disk", "pool_first" => "pools made first",
             "pool_after" => "pools made after" }
  axis :hogs, beside.keys, title: "beside", labels: beside, quick: [0, 2, "disk", "pool_after"]
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
    published "best with RDoc, 2008", { 1 => 76, "disk" => 76 }, like: "nb"
  end
end

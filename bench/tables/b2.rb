# frozen_string_literal: true

Bench.table "b2" do
  title "Memory of fibers and threads"
  question "How much memory do N waiting fibers or threads take?"
  source article: "Ruby Fibers Vs Ruby Threads", author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "Ruby 1.9"
  claim "100,000 fibers “occupied a whopping 500MB of RAM” (virtual size). The graph exists only " \
        "as an image."
  differs <<~TEXT
    The article gives the virtual size of the process. We give what was added by the fibers or
    threads: resident (RSS), proportional (PSS) and virtual size, and the number of mappings
    (each counts against vm.max_map_count: Linux' default of 65,530 ends the row at about 31,700
    fibers; `--maps 500000` raises it as long as the bench measures, see B1). Where not all could be
    made, the numbers are of those that were. The garbage collector is off meanwhile.
  TEXT
  axis :runtime, %w[fibers nb nb_pool async carbon itsi threads mn ractors], title: "what"
  axis :count, [100, 1_000, 10_000, 30_000, 100_000], title: "how many", quick: [1_000, 10_000]
  workload "spawn"
  lasts 0.8
  again { |cell| cell[:runtime] == "nb" }

  view "B2", title: "Resident memory", unit: "KB", better: :lower, rows: :runtime,
             columns: :count, metric: "rss_kb", compare: "nb",
             scale: :each, amount: true
  view "B2 each", title: "Resident memory per piece", unit: "KB", better: :lower, rows: :runtime,
                  columns: :count, metric: "rss_kb_each"
  view "B2 shared", title: "Proportional memory (PSS)", unit: "KB", better: :lower,
                    rows: :runtime, columns: :count, metric: "pss_kb", scale: :each
  view "B2 virtual", title: "Virtual size", unit: "KB", better: :lower, rows: :runtime,
                     columns: :count, metric: "virtual_kb", scale: :each
  view "B2 maps", title: "Memory mappings", unit: "maps", better: :lower, rows: :runtime,
                  columns: :count, metric: "maps", scale: :each
end

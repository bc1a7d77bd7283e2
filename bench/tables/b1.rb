# frozen_string_literal: true

Bench.table "b1" do
  title "Creating fibers and threads"
  question "How long does it take to create N fibers or threads that all stay alive?"
  source article: "Ruby Fibers Vs Ruby Threads", author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "Ruby 1.9"
  claim "“I maxed on 3070 threads while fibers were not complaining when I created 100,000 of " \
        "them (but they took 203 seconds)”. The graph exists only as an image."
  differs <<~TEXT
    Every fiber and thread has started and waits when the clock stops; the article's may not have
    run yet. Today each fiber's stack is two memory mappings, so that vm.max_map_count ends the row
    of fibers (about 31,700 at Linux' default of 65,530): the number reached is printed, and why. It
    is the whole machine's limit: `nb bench b1 b2 --maps 500000` raises it as long as it measures.
    When all wait, they are let go and as many are created again, many times: their median shows who
    keeps stacks, fibers or threads for a second use.
  TEXT
  axis :runtime, %w[fibers nb nb_pool async carbon itsi threads mn ractors], title: "what"
  axis :count, [10, 100, 1_000, 3_070, 10_000, 30_000, 100_000], title: "how many",
                                                                   quick: [100, 1_000, 10_000]
  workload "spawn"
  lasts 0.8
  again { |cell| cell[:runtime] == "nb" && cell[:count] <= 30_000 }
  at_most(2) { |cell, _quick| cell[:count] > 30_000 }

  view "B1", title: "Time to create them all", unit: "s", better: :lower, rows: :runtime,
             columns: :count, compare: "nb", chart: :lines, scale: :log, spread: :log do
    published "Ruby 1.9 fibers, 2008", { 100_000 => 203 }, like: "fibers"
  end
  view "B1 each", title: "Time per piece", unit: "µs", better: :lower, rows: :runtime,
                  columns: :count, metric: "us_each", scale: :each
  view "B1 again", title: "Time per piece, as many again after the first have ended", unit: "µs",
                   better: :lower, rows: :runtime, columns: :count, metric: "again_us_each",
                   compare: "nb", scale: :each
  view "B1 most", title: "How many were reached", unit: "alive", rows: :runtime,
                  columns: :count, metric: "reached", scale: :log do
    published "Ruby 1.9 threads, 2008", { 100_000 => 3_070 }, like: "threads"
    published "Ruby 1.9 fibers, 2008", { 100_000 => 100_000 }, like: "fibers"
  end
end

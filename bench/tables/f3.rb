# frozen_string_literal: true

Bench.table "f3" do
  title "Fetching a URL four hundred times"
  question "How long do 400 fetches take with 1 to 20 workers, and with more?"
  source article: "Concurrency, Real and Imagined, in MRI; Threads", author: "Engine Yard blog",
         year: 2009, setup: "Ruby 1.8, 8 cores, Linux, mean of 100 runs, URLs on the net"
  claim "“Ruby threads are a big help with an IO bound activity like this.”"
  differs <<~TEXT
    The URLs are `nb delayd` with 28.6 ms (35 answers per second) and 333 ms (3 per second). The
    published times are too short for 400 fetches (one worker at 35 per second needs 11.4 s, not
    6.5 s): they fit about 180 to 230. Ours are for 400, with 1,000 workers for 1,000; where one
    sample would take longer than 12 s, whole turns of a part of them are measured and the time is
    extrapolated and marked.
  TEXT
  workers = [1, 2, 5, 10, 20, 50, 200, 400, 1_000]
  axis :runtime, %w[threads async carbon itsi nb], title: "run by"
  axis :workers, workers, title: "workers", quick: [1, 5, 20, 200],
                          labels: { 1_000 => "1,000 (1,000 fetches)" }
  axis :delay_ms, [28.6, 333], title: "server delay", unit: "ms"
  workload "fetches", fetches: 400
  lasts 5
  server :delayd
  again { |cell| cell[:runtime] == "nb" && cell[:workers] >= 10 }
  # The delays make these; the client has no part in them.
  at_most(3) { |cell, _quick| cell[:workers] < 10 }

  numbers = { 28.6 => [6.53462668, 3.34861606, 1.38942396, 0.72804622, 0.47964698],
              333 => [61.1016239, 30.4514539, 12.1620945, 6.0968646, 3.0411382] }
  { 28.6 => "35/s", 333 => "3/s" }.each do |delay, rate|
    view "F3 #{rate}", title: "400 fetches at #{rate}", unit: "s", better: :lower, rows: :runtime,
                       columns: :workers, where: { delay_ms: delay }, compare: "nb",
                       chart: :lines, scale: :log, spread: :log,
                       headline: rate == "3/s" do
      published "Ruby 1.8 threads, 2009", numbers[delay], like: "threads"
      limit("ideal: turns × delay") do |_result, count|
        ([400, count].max / count.to_f).ceil * delay / 1000.0
      end
    end
  end
end

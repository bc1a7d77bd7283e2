# frozen_string_literal: true

Bench.table "f1" do
  title "CPU-bound work in threads"
  question "Is a sum ready sooner when 1, 2, 4 or 8 threads or fibers share it?"
  source article: "Concurrency, Real and Imagined, in MRI; Threads", author: "Engine Yard blog",
         year: 2009, setup: "Ruby 1.8, 8 cores, Linux, mean of 100 runs"
  claim "“MRI 1.8 threads are absolutely no help at all for a CPU bound application.”"
  differs <<~TEXT
    The same ranges and the same loop, without the benchmark library's report; ten runs per process
    and their mean, after one run that is not counted. 50,000,000 numbers, which the article does not
    have, take today about as long as its 5,000,000 did: one run in ten is enough of these. Fibers and NeverBlock cannot help either: one
    thread runs them all. Ractors are the only row that may use several cores.
  TEXT
  names = { 50_000 => "50,000", 500_000 => "500,000", 5_000_000 => "5,000,000",
            50_000_000 => "50,000,000" }
  sizes = names.keys
  axis :runtime, %w[threads mn fibers async nb ractors], title: "run by"
  axis :workers, [1, 2, 4, 8], title: "workers"
  axis :iterations, sizes, title: "iterations", quick: sizes.take(2)
  workload "sums", runs: 10
  lasts 1.5
  at_most(3) { |cell, _quick| cell[:iterations] == sizes.last }
  again { |cell| cell[:runtime] == "nb" && cell[:workers] == 4 }

  numbers = { 50_000 => [0.01730298, 0.01724724, 0.01729293, 0.01741591],
              500_000 => [0.17149276, 0.17179465, 0.17181384, 0.17210276],
              5_000_000 => [1.70610744, 1.70557474, 1.70570264, 1.71201153] }
  sizes.each do |size|
    view "F1 #{size / 1000}k", title: "Sum of #{names[size]} numbers", unit: "s",
                               better: :lower, rows: :runtime, columns: :workers,
                               where: { iterations: size }, compare: "nb", scale: :log,
                               headline: size == 5_000_000 do
      published "Ruby 1.8 threads, 2009", numbers[size], like: "threads" if numbers.key?(size)
    end
  end
end

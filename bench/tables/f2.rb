# frozen_string_literal: true

Bench.table "f2" do
  title "CPU-bound work in processes"
  question "Is a sum ready sooner when 1, 2, 4 or 8 processes share it?"
  source article: "Concurrency, Real and Imagined, in MRI; Threads", author: "Engine Yard blog",
         year: 2009, setup: "Ruby 1.8, 8 cores, Linux, mean of 100 runs"
  claim "Everything gets faster until fork costs more than it gives: 8 processes are slower than " \
        "4 for the small sums."
  differs <<~TEXT
    The same fork, pipe and Marshal; ten runs per process and their mean, after one that is not
    counted (of 50,000,000 numbers one run in ten, as in F1). No number of processes can beat the machine's cores (see above the table). Beside it
    NeverBlock's own ways: a child process per part, and a pool of processes that are kept.
  TEXT
  names = { 50_000 => "50,000", 500_000 => "500,000", 5_000_000 => "5,000,000",
            50_000_000 => "50,000,000" }
  sizes = names.keys
  axis :runtime, %w[processes nb_processes nb_process_pool], title: "run by"
  axis :workers, [1, 2, 4, 8], title: "processes"
  axis :iterations, sizes, title: "iterations", quick: sizes.take(2)
  workload "sums", runs: 10
  lasts 1.2
  at_most(3) { |cell, _quick| cell[:iterations] == sizes.last }
  again { |cell| cell[:runtime] == "nb_processes" && cell[:workers] == 4 }

  numbers = { 50_000 => [0.01805432, 0.0098329, 0.00609409, 0.00847991],
              500_000 => [0.17199047, 0.08675517, 0.0446612, 0.05346145],
              5_000_000 => [1.70812685, 0.85509328, 0.43100698, 0.25621009] }
  sizes.each do |size|
    view "F2 #{size / 1000}k", title: "Sum of #{names[size]} numbers", unit: "s",
                               better: :lower, rows: :runtime, columns: :workers,
                               where: { iterations: size }, compare: "nb_processes",
                               scale: :log do
      published "Ruby 1.8 processes, 2009", numbers[size], like: "processes" if numbers.key?(size)
    end
  end
end

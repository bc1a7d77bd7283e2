# frozen_string_literal: true

Bench.table "words" do
  title "What a limit costs that nobody hits"
  question "What do a shield, a limiter's turn and a retry cost when nobody waits and nothing " \
           "fails?"
  source article: "none: these are this gem's own methods", author: "this project", year: 2026
  claim "At most 1 µs each."
  differs <<~TEXT
    No published table. One fiber, or the main thread without a loop; the block adds one to a number.
    “Nothing” is the block alone, called by a method that yields.
  TEXT
  labels = { "nothing" => "nothing", "shield" => "`NB.shield`", "limiter" => "`Limiter.new(5)`",
             "span" => "`Limiter.new(…, per:)`", "key" => "`limiter[host]`",
             "retry" => "`NB.retry`" }
  axis :runtime, %w[blocking nb], title: "where",
                                  labels: { "blocking" => "main thread", "nb" => "in a loop" }
  axis :word, labels.keys, title: "method", labels: labels
  workload "words"
  again { |cell| cell[:runtime] == "nb" }

  view "words", title: "CPU time of a call", unit: "µs", better: :lower, rows: :runtime,
                columns: :word, metric: "cpu_us_per_op", amount: true
end

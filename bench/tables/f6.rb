# frozen_string_literal: true

Bench.table "f6" do
  title "Memory that forked processes share"
  question "How much of its parent's memory does a child own after garbage collections, and does " \
           "Process.warmup help?"
  source article: "Concurrency, Real and Imagined, in MRI; Threads", author: "Engine Yard blog",
         year: 2009
  claim "Ruby 1.8's collector marks objects where they lie, so what forked processes share is " \
        "soon copied. No numbers."
  differs <<~TEXT
    Since Ruby 2.0 marks lie apart. A parent of 300,000 small arrays and strings forks four children,
    which make garbage and collect it. `Process.warmup` needs Ruby 3.3 or newer.
  TEXT
  labels = { "fork" => "fork", "collect" => "GC.start, fork", "warmup" => "Process.warmup, fork" }
  axis :way, labels.keys, title: "before", labels: labels
  axis :collections, [0, 1, 10], title: "collections in the child"
  workload "forked"
  runtime "blocking"
  patience 60
  lasts 3
  again { |cell| cell[:way] == "fork" }

  view "F6", title: "Memory that a child owns alone", unit: "MB", better: :lower, rows: :way,
             columns: :collections, compare: "fork", amount: true
  view "F6 PSS", title: "Proportional memory (PSS) of a child", unit: "MB", better: :lower,
                 rows: :way, columns: :collections, metric: "pss_mb", amount: true
end

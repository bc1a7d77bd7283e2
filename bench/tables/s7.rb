# frozen_string_literal: true

Bench.table "s7" do
  title "Starting a web server"
  question "How long does it take from the start of the process to the first response?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "Says nothing of it; people who restart often ask."
  differs <<~TEXT
    The application answers two letters. The shortest of three starts, the files being in the cache.
    The limit is one and a fifth of what Ruby needs to load the rack gem, and a tenth of a second.
  TEXT
  axis :runtime, %w[ruby puma falcon iodine itsi_server nb_server], title: "server"
  axis :workers, [1], title: "processes"
  workload "start_up"
  patience 60
  lasts 4
  again { |cell| cell[:runtime] == "nb_server" }

  view "S7", title: "Time to the first answer", unit: "s", better: :lower, rows: :runtime,
             columns: :workers, compare: "nb_server" do
    derived "goal: 1.2 × Ruby + 0.1 s" do |result, workers|
      bare = result.median({ runtime: "ruby", workers: workers })
      (bare * 1.2) + 0.1 if bare
    end
  end
end

# frozen_string_literal: true

Bench.table "a7" do
  title "More client processes"
  question "How many requests per second do one, two and four client processes make together?"
  source article: "Ruby Networking on Steroids", author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "two client processes beside the server on a dual-core notebook"
  claim "A second process brought 50 % more."
  differs <<~TEXT
    As A5, with 1,000 requests at once in each process. All processes share the machine's cores with
    `nb delayd`, a process of one thread; without a delay, that server's core is what ends the row.
  TEXT
  axis :runtime, %w[threads async nb], title: "client"
  axis :processes, [1, 2, 4], title: "processes"
  axis :delay_ms, [0, 500], title: "server delay", unit: "ms"
  workload "client_processes"
  server :delayd
  patience 60
  again { |cell| cell[:runtime] == "nb" }

  { 500 => "A7", 0 => "A7 0 ms" }.each do |delay, id|
    view id, title: "Requests per second at #{delay} ms", unit: "req/s", rows: :runtime,
             columns: :processes, where: { delay_ms: delay }, compare: "nb",
             headline: id == "A7" do
      published "Ruby 1.9 NeverBlock, 2008", { 1 => 1_031, 2 => 1_546 }, like: "nb" if delay == 500
    end
  end
  view "A7 CPU", title: "CPU time of the clients per request at 500 ms", unit: "µs", better: :lower,
                 rows: :runtime, columns: :processes, where: { delay_ms: 500 },
                 metric: "cpu_us_per_op", amount: true
end

# frozen_string_literal: true

Bench.table "s5" do
  title "What one request costs a web server"
  question "How many objects does a hello allocate, and how many system calls does it make?"
  source article: "itsi-server-benchmarks", author: "Wouter Coppieters", year: 2025,
         setup: "rates only; nobody publishes these counts"
  differs <<~TEXT
    Counted, not timed. One keep-alive connection asks 300 times; objects are the difference of
    Ruby's own counter, those of the application among them (a response of three objects); system
    calls are counted by strace over all threads. A server with a thread for the sockets looks worst
    when there is one connection only, so they are counted with 64 busy connections too.
  TEXT
  axis :runtime, %w[puma falcon iodine itsi_server nb_server c_server], title: "server"
  axis :headers, [0, 10], title: "headers beside Host"
  workload "request_cost"
  patience 60
  lasts 6
  at_most(2) { true }

  view "S5", title: "Objects per request", unit: "objects", better: :lower, rows: :runtime,
             columns: :headers, amount: true, cpu: false
  view "S5 alone", title: "System calls per request, one connection", unit: "calls",
                   better: :lower, rows: :runtime, columns: :headers, metric: "syscalls_alone"
  view "S5 busy", title: "System calls per request, 64 connections", unit: "calls",
                  better: :lower, rows: :runtime, columns: :headers, metric: "syscalls_busy"
end

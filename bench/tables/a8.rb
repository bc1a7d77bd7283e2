# frozen_string_literal: true

Bench.table "a8" do
  title "Ten thousand open sockets"
  question "What does one wake-up cost while 100, 1,000 or 10,000 other sockets are waited for?"
  source article: "Ruby Networking on Steroids", author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "Ruby 1.9.1"
  claim "“A Ruby 1.9 bug that crashed the client when the file descriptors exceeded 1024”."
  differs <<~TEXT
    The article only tells of the crash. Here a job waits on each socket; one byte goes out on a
    hundred of them, a C server in another process sends it back, the hundred jobs wake. The number
    is the CPU time of this process (user and system) per wake-up, write and read included. Plain C
    does the same without Ruby: what it loses with many sockets, the kernel and cold caches take.
  TEXT
  axis :runtime, %w[threads async carbon itsi nb c], title: "runtime"
  axis :sockets, [100, 1_000, 5_000, 10_000], title: "waiting sockets", quick: [100, 1_000, 10_000]
  workload "wakes"
  server :c_echo
  again { |cell| cell[:runtime] == "nb" }

  view "A8", title: "CPU time per wake-up", unit: "µs", better: :lower, rows: :runtime,
             columns: :sockets, compare: "nb", chart: :lines, spread: :log,
             amount: true do
    { "nb" => "NeverBlock", "c" => "plain C" }.each do |runtime, name|
      derived "#{name} against 100 sockets (×)", like: runtime do |result, sockets|
        few = result.median({ runtime: runtime, sockets: 100 })
        many = result.median({ runtime: runtime, sockets: sockets })
        many / few if few && many
      end
    end
  end
  view "A8 GC", title: "Of it Ruby's garbage collector", unit: "µs", better: :lower,
                rows: :runtime, columns: :sockets, metric: "gc_us_per_wake", chart: :lines,
                spread: :log
  view "A8 clock", title: "Clock time per wake-up", unit: "µs", better: :lower, rows: :runtime,
                   columns: :sockets, metric: "us_per_wake", chart: :lines, spread: :log
end

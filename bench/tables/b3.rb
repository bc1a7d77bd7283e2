# frozen_string_literal: true

Bench.table "b3" do
  title "Switching"
  question "How many nanoseconds does it take to go from one fiber or thread to another?"
  source article: "Ruby Fibers Vs Ruby Threads", author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "“I did not measure the cost of context switching for both approaches, may be in another " \
        "time.”"
  differs <<~TEXT
    The article did not do it. Four doors: Fiber#resume with Fiber.yield, Fiber#transfer (both
    without a scheduler), a token handed over by two queues (block and unblock), a byte handed over
    by two pipes (io_wait). One way counts as one switch.
  TEXT
  plain = %w[resume transfer]
  axis :runtime, %w[fibers threads mn async carbon itsi nb], title: "runtime"
  axis :way, [*plain, "queue", "pipe"], title: "way",
                                          labels: { "resume" => "resume/yield",
                                                    "queue" => "queue hand-over",
                                                    "pipe" => "pipe ping-pong" }
  workload "switches"
  skip { |cell| (cell[:runtime] == "fibers") != plain.include?(cell[:way]) }
  again { |cell| cell[:runtime] == "nb" }

  view "B3", title: "Time per switch", unit: "ns", better: :lower, rows: :runtime, columns: :way,
             compare: "nb", scale: :each
end

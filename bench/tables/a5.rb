# frozen_string_literal: true

Bench.table "a5" do
  title "A thousand requests to a server that takes its time"
  question "How many requests per second does one client process make when every answer takes " \
           "0 ms to 500 ms, and what does waiting cost each kind of client?"
  source article: "Ruby Networking on Steroids", author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "Ruby 1.8.6 and 1.9.1; dual-core notebook with client and EventMachine server; " \
                "one run each; blocking at 500 ms extrapolated"
  claim "“It is generally 2.5X faster” than the fastest threaded client; blocking is fastest at " \
        "0 ms, NeverBlock a very close second."
  differs <<~TEXT
    The server is `nb delayd` in a process of its own. Each client runs the 1,000 requests at once,
    again and again until the sample is long enough (the article: once), after 50 requests without
    delay. Blocking requests that would take longer than 20 seconds (four in a quick run) are
    extrapolated from a part of them and marked. A new fiber per request, no pool, as in the article.
    Thread pool, async, itsi-scheduler and carbon_fiber were not there in 2008. Where requests wait,
    native threads have come nearer since (A6 below): at 100 ms NeverBlock made 3.1 times as many
    requests per second then, at 500 ms 2.5 times, without a delay 2.2 times.
  TEXT
  delays = [0, 10, 50, 100, 500]
  axis :runtime, %w[blocking threads pool async carbon itsi nb], title: "client"
  axis :delay_ms, delays, title: "server delay", unit: "ms"
  workload "requests", requests: 1_000, whole_s: 20
  server :delayd
  patience 180
  again { |cell| cell[:runtime] == "nb" }
  at_most(3) { |cell, _quick| cell[:runtime] == "blocking" && cell[:delay_ms] >= 10 }

  # 1,000 requests take the delay at least, and at least the CPU time that they cost this client:
  # one waits while another computes, so the longer of the two, not their sum.
  ideal = lambda do |result, runtime, delay|
    cpu = result.median({ runtime: runtime, delay_ms: delay }, "cpu_us_per_op")
    1000 / [delay / 1000.0, cpu / 1000.0].max if cpu
  end
  threads = %w[threads pool]

  view "A5", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :delay_ms,
             compare: "nb", chart: :lines do
    published "Ruby 1.8 blocking, 2008", [2000, 19, 16, 10, 2]
    published "Ruby 1.9 blocking, 2008", [2400, 19, 17, 10, 2], like: "blocking"
    published "Ruby 1.8 threads, 2008", [1050, 800, 670, 536, 415]
    published "Ruby 1.9 threads, 2008", [618, 470, 451, 441, 395], like: "threads"
    published "Ruby 1.9 NeverBlock, 2008", [2360, 1997, 1837, 1656, 1031], like: "nb"
    limit("ideal for NeverBlock") { |result, delay| ideal.call(result, "nb", delay) }
  end

  view "A5 CPU", title: "CPU time of the client per request", unit: "µs", better: :lower,
                 rows: :runtime, columns: :delay_ms, metric: "cpu_us_per_op", compare: "nb",
                 chart: :lines, amount: true, headline: [500]

  view "A5 share", title: "Share of the ideal: the longer of delay and CPU time", unit: "%",
                   rows: :runtime, columns: :delay_ms, measured: false do
    derived "NeverBlock", like: "nb" do |result, delay|
      limit = ideal.call(result, "nb", delay)
      figure = result.figure({ runtime: "nb", delay_ms: delay })
      figure.value / limit * 100 if limit && figure&.value
    end
    # Of its CPU time only what the column without delay says is known: 0.424 ms.
    published "NeverBlock, 2008 (computed)", [100, 84.6, 77.8, 70.2, 51.6], like: "nb"
  end

  view "A6", title: "Advantage over the fastest threaded client", unit: "%", rows: :runtime,
             columns: :delay_ms, measured: false do
    derived "NeverBlock", like: "nb" do |result, delay|
      subject = { runtime: "nb", delay_ms: delay }
      rivals = threads.map { |runtime| { runtime: runtime, delay_ms: delay } }
      rival = rivals.select { |cell| result.median(cell) }.max_by { |cell| result.median(cell) }
      estimate = rival && result.estimate(subject, rival)
      if estimate
        ratios = [estimate.ratio, estimate.low, estimate.high]
        percent = ratios.map { |ratio| ratio && ((ratio - 1) * 100) }
        errors = [subject, rival].sum { |cell| result.figure(cell).errors }
        Bench::Figure.new(value: percent[0], low: percent[1], high: percent[2], errors: errors,
                          count: estimate.pairs, notes: [])
      end
    end
    published "NeverBlock, 2008", [124.76, 149.63, 174.18, 208.96, 148.43], like: "nb"
  end
end

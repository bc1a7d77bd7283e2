# frozen_string_literal: true

Bench.table "i9" do
  title "Is it Fiber or EventMachine?"
  question "What does a call cost on either loop, with fibers or callbacks, on the loop or on " \
           "a thread pool?"
  source article: "Fiber and EventMachine", author: "Ruby China", year: 2014
  claim "EventMachine with fibers was 20 % slower than threads; comments ask whether Fiber or " \
        "EventMachine is to blame, and propose async and await with threads and a loop that asks " \
        "every 50 ms."
  differs <<~TEXT
    The article left the question open. Fifty jobs make twenty calls each, one after the other, over
    a kept connection to a server in C. On the loop, the loop waits for the socket; on the pool, one
    of twenty threads makes the call with a blocking socket and hands the answer to the loop.
    NeverBlock's callbacks are those of `NB.reactor`, where each watched socket has a fiber;
    EventMachine's fibers are resumed by its callbacks. Threads and the polling await have straight
    code too, so they stand under "fiber". In the last view, 1 means that the choice costs nothing.
  TEXT
  labels = { "fiber" => "fiber", "callback" => "callback", "fiber_pool" => "fiber, thread pool",
             "callback_pool" => "callback, thread pool" }
  axis :runtime, %w[nb em threads polling], title: "loop"
  axis :way, labels.keys, title: "form", labels: labels
  workload "ablation"
  server :c_http
  patience 40
  skip { |cell| %w[threads polling].include?(cell[:runtime]) && cell[:way] != "fiber" }
  again { |cell| cell[:runtime] == "nb" }

  view "I9", title: "Calls per second", unit: "calls/s", rows: :runtime, columns: :way,
             compare: "nb"
  view "I9 CPU", title: "CPU time of the client per call", unit: "µs", better: :lower,
                 rows: :runtime, columns: :way, metric: "cpu_us_per_op", compare: "nb",
                 amount: true, headline: true
  view "I9 blame", title: "What each choice costs in CPU time", unit: "×", better: :lower,
                   rows: :runtime, columns: :way, measured: false do
    cost = lambda do |result, runtime, way|
      result.median({ runtime: runtime, way: way }, "cpu_us_per_op")
    end
    ratio = ->(one, other) { one / other if one && other }
    derived "EventMachine against NeverBlock", like: "em" do |result, way|
      ratio.call(cost.call(result, "em", way), cost.call(result, "nb", way))
    end
    { "nb" => "on NeverBlock", "em" => "on EventMachine" }.each do |loop, where|
      derived "fiber against callback, #{where}", like: loop do |result, way|
        other = way.sub("fiber", "callback")
        ratio.call(cost.call(result, loop, way), cost.call(result, loop, other)) if way != other
      end
      derived "thread pool against none, #{where}", like: loop do |result, way|
        other = way.delete_suffix("_pool")
        ratio.call(cost.call(result, loop, way), cost.call(result, loop, other)) if way != other
      end
    end
  end
end

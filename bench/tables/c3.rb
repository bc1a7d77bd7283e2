# frozen_string_literal: true

# Seconds of the article, blocking and NeverBlock, by the number of long queries, for 2, 5, 10, 20,
# 50 and 100 short ones after each.
faster_io = {
  10 => [[0.56, 0.55, 0.60, 0.72, 0.98, 1.46], [0.50, 0.40, 0.40, 0.45, 0.62, 0.94],
         [10.27, 27.04, 33.76, 38.12, 36.57, 35.40]],
  50 => [[2.55, 2.72, 3.01, 3.43, 4.78, 7.42], [2.26, 1.83, 1.82, 2.10, 3.23, 5.17],
         [11.19, 32.82, 39.67, 38.73, 32.36, 30.31]],
  100 => [[5.15, 5.45, 5.90, 6.83, 9.74, 14.27], [4.46, 3.63, 3.65, 4.33, 8.68, 12.68],
          [13.53, 33.39, 38.13, 36.53, 10.93, 11.15]]
}.freeze

{ "c3" => ["cpu", "that compute", "count 60,000 numbers"],
  "c3_sleep" => ["sleep", "that wait", "`pg_sleep(0.01)`"] }.each do |id, (kind, title, long)|
  Bench.table id do
    title "Long and short queries, the long ones #{title}"
    question "How long do LONG long queries and LONG × MULT short ones take, one after the other " \
             "and by fibers that share twelve connections?"
    source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)",
           year: 2008, setup: "Ruby 1.9, PostgreSQL, client and server on one dual-core machine"
    claim "“40 % faster DB access”; with RDoc running beside, 51–76 %."
    differs <<~TEXT
      pg 1.7 on PostgreSQL 15. A long query: #{long}, about 10 ms of our machine for the 54 ms that
      the article's took; a short one: `select 1`. A hundred jobs share twelve connections; blocking
      Ruby has one. Threads were not measured in the article. Client and database share two cores:
      where queries compute, nothing can be faster than what the database's CPU allows.
    TEXT
    axis :runtime, %w[blocking threads nb], title: "client"
    axis :mult, [2, 5, 10, 20, 50, 100], title: "short per long", quick: [2, 10, 100]
    axis :long, [10, 50, 100], title: "long queries"
    workload "pg_mix", kind: kind
    gems "pg" => "1.7.0"
    server :postgresql
    patience 90
    lasts 2

    faster_io.each do |count, (blocking, neverblock, _gain)|
      view "#{id.upcase} #{count}", title: "#{count} long queries", unit: "s", better: :lower,
                                    rows: :runtime, columns: :mult, where: { long: count },
                                    compare: "nb", chart: :lines, spread: :log do
        published "blocking, 2008", blocking, like: "blocking"
        published "NeverBlock, 2008", neverblock, like: "nb"
      end
    end

    view "#{id.upcase} gain", title: "Time that NeverBlock saves against blocking", unit: "%",
                              rows: :runtime, columns: :mult, measured: false do
      faster_io.each do |count, (_blocking, _neverblock, gain)|
        derived "#{count} long queries", like: "nb" do |result, mult|
          times = %w[blocking nb].map do |runtime|
            result.median({ runtime: runtime, mult: mult, long: count })
          end
          (1 - times[1].fdiv(times[0])) * 100 if times.all?
        end
        published "#{count}, 2008", gain, like: "nb"
      end
    end
    view "#{id.upcase} CPU", title: "CPU time of the client, 50 long queries", unit: "s",
                             better: :lower, rows: :runtime, columns: :mult, metric: "client_s",
                             where: { long: 50 }, amount: true
    view "#{id.upcase} database", title: "CPU time of the database, 50 long queries", unit: "s",
                                  better: :lower, rows: :runtime, columns: :mult,
                                  metric: "database_s", where: { long: 50 }, amount: true
  end
end

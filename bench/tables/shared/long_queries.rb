# frozen_string_literal: true

module Bench
  # C3 and C3_SLEEP: the same mix of long and short queries; the long ones compute, or wait.
  module LongQueries
    # Seconds of the article, blocking and NeverBlock, and percent saved, by the number of long
    # queries, for 2, 5, 10, 20, 50 and 100 short ones after each.
    PUBLISHED = {
      10 => [[0.56, 0.55, 0.60, 0.72, 0.98, 1.46], [0.50, 0.40, 0.40, 0.45, 0.62, 0.94],
             [10.27, 27.04, 33.76, 38.12, 36.57, 35.40]],
      50 => [[2.55, 2.72, 3.01, 3.43, 4.78, 7.42], [2.26, 1.83, 1.82, 2.10, 3.23, 5.17],
             [11.19, 32.82, 39.67, 38.73, 32.36, 30.31]],
      100 => [[5.15, 5.45, 5.90, 6.83, 9.74, 14.27], [4.46, 3.63, 3.65, 4.33, 8.68, 12.68],
              [13.53, 33.39, 38.13, 36.53, 10.93, 11.15]]
    }.freeze

    # @param kind [String] see {Workloads::PgMix::LONG}
    # @param long [String] what a long query is
    # @return [void]
    def long_queries(kind, long)
      describe_long_queries(long)
      axis :runtime, %w[blocking threads nb], title: "client"
      axis :mult, [2, 5, 10, 20, 50, 100], title: "short per long", quick: [2, 10, 100]
      axis :long, PUBLISHED.keys, title: "long queries"
      workload "pg_mix", kind: kind
      gems "pg" => "1.7.0"
      server :postgresql
      patience 90
      lasts 2
      PUBLISHED.each { |count, (blocking, neverblock)| times(count, blocking, neverblock) }
      gain
      cpu
    end

    private

    def name = @id.upcase

    def describe_long_queries(long)
      question "How long do LONG long queries and LONG × MULT short ones take, one after the " \
               "other and by fibers that share twelve connections?"
      source article: "Faster IO for Ruby with Postgres", author: "Mohammad A. Ali (oldmoe)",
             year: 2008, setup: "Ruby 1.9, PostgreSQL, client and server on one dual-core machine"
      claim "“40 % faster DB access”; with RDoc running beside, 51–76 %."
      differs <<~TEXT
        pg 1.7 on PostgreSQL 15. A long query: #{long}, about 10 ms of our machine for the 54 ms
        that the article's took; a short one: `select 1`. A hundred jobs share twelve connections;
        blocking Ruby has one. Threads were not measured in the article. Client and database share
        two cores: where queries compute, nothing can be faster than what the database's CPU allows.
      TEXT
    end

    def times(count, blocking, neverblock)
      view "#{name} #{count}", title: "#{count} long queries", unit: "s", better: :lower,
                               rows: :runtime, columns: :mult, where: { long: count },
                               compare: "nb", chart: :lines, spread: :log,
                               headline: count == 50 do
        published "blocking, 2008", blocking, like: "blocking"
        published "NeverBlock, 2008", neverblock, like: "nb"
      end
    end

    def gain
      view "#{name} gain", title: "Time that NeverBlock saves against blocking", unit: "%",
                           rows: :runtime, columns: :mult, measured: false do
        PUBLISHED.each do |count, (_blocking, _neverblock, gain)|
          derived "#{count} long queries", like: "nb" do |result, mult|
            times = %w[blocking nb].map do |runtime|
              result.median({ runtime: runtime, mult: mult, long: count })
            end
            (1 - times[1].fdiv(times[0])) * 100 if times.all?
          end
          published "#{count}, 2008", gain, like: "nb"
        end
      end
    end

    def cpu
      { "CPU" => %w[client client_s], "database" => %w[database database_s] }
        .each do |word, (who, metric)|
          view "#{name} #{word}", title: "CPU time of the #{who}, 50 long queries", unit: "s",
                                  better: :lower, rows: :runtime, columns: :mult, metric: metric,
                                  where: { long: 50 }, amount: true
        end
    end
  end
end

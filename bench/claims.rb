# frozen_string_literal: true

module Bench
  # What the articles say, and what decides today whether it is true. Where they name no number,
  # the bound is ours: "almost four times" holds from 3.5 times on.
  module Claims
    OLD = "LEGACY.md#what-the-articles-said-and-what-is-true-today"
    private_constant :OLD

    class << self
      private

      def claim(...) = Claim.new(...)

      # A rival's cell that does not name a value has the subject's.
      def ratio(table, subject, rival, metric: "value", better: :higher, over: nil, least: nil,
                most: nil)
        Claim::Ratio.new(table: table, subject: subject, rival: subject.merge(rival), over: over,
                         metric: metric, better: better, bound: bound(least, most))
      end

      def bound(least, most) = { least: least, most: most }.compact

      # @param samples [Integer] that decide: one, where a single example does
      def amount(table, cell, unit:, metric: "value", samples: Statistics::FEWEST, least: nil,
                 most: nil)
        Claim::Amount.new(table: table, cell: cell, metric: metric, unit: unit, samples: samples,
                          bound: bound(least, most))
      end

      def stated(verdict, text, page = OLD) = Claim::Stated.new(verdict, text, page)
    end

    # Study => its claims.
    ALL = {
      "NeverBlock" => [
        claim("A1", "“NeverBlock tries to work in harmony with most Ruby libraries”",
              stated(:holds, "it alters no socket class: Ruby's own ask the scheduler; each " \
                             "library has a test", "TRANSPARENCY.md")),
        claim("A3", "Twenty requests to a server that takes a second “all return after " \
                    "approximately 1 second”",
              amount("a3", { runtime: "nb", delay_ms: 1000 }, unit: "s", metric: "batch_s",
                     most: 1.05)),
        claim("A5", "Without a delay NeverBlock is “a very close second to the fastest client”, " \
                    "the blocking one",
              ratio("a5", { runtime: "nb", delay_ms: 0 }, { runtime: "blocking" }, least: 0.95)),
        claim("A6", "Beside threads NeverBlock “is generally 2.5X faster”",
              ratio("a5", { runtime: "nb" }, { runtime: "threads" },
                    over: { delay_ms: [10, 50, 100, 500] }, least: 2.5)),
        claim("A7", "A second process brings 50 % more",
              ratio("a7", { runtime: "nb", processes: 2, delay_ms: 500 }, { processes: 1 },
                    least: 1.5)),
        claim("A8", "File descriptors above 1,024 crash the client",
              stated(:changed, "no wait of the loop uses select, so it has no such limit; tests " \
                               "open thousands of sockets")),
        claim("B1", "“Fibers are much faster to create than threads”",
              ratio("b1", { runtime: "nb" }, { runtime: "threads" }, better: :lower,
                    over: { count: [1_000, 10_000] }, least: 2)),
        claim("B1", "“I maxed on 3070 threads”",
              amount("b1", { runtime: "threads", count: 10_000 }, unit: "alive", metric: "reached",
                     samples: 1, most: 3_070)),
        claim("B1", "100,000 fibers “took 203 seconds”",
              amount("b1", { runtime: "fibers", count: 100_000 }, unit: "s", least: 203)),
        claim("B2", "Fibers “eat much less memory too”",
              ratio("b2", { runtime: "nb", count: 10_000 }, { runtime: "threads" },
                    metric: "rss_kb", better: :lower, least: 1.5)),
        claim("C3", "Queries by fibers and a pool take 10 to 40 % less time than one after the " \
                    "other",
              ratio("c3", { runtime: "nb", long: 50 }, { runtime: "blocking" }, better: :lower,
                    over: { mult: [2, 10, 100] }, least: 1.1)),
        claim("C4", "The time “is a bit sensitive” to the size of the fiber pool",
              ratio("c4", { runtime: "nb", workers: 100 }, { workers: 12 }, better: :lower,
                    least: 1.1)),
        claim("C5", "A web server answers 800 such requests per second instead of 500",
              ratio("c5", { runtime: "nb_server", kind: "mix" }, { runtime: "puma_1" },
                    least: 1.6)),
        claim("C6", "While others compute, the gain is larger: 51 to 76 %",
              ratio("c6", { runtime: "nb", hogs: 2 }, { runtime: "blocking" }, better: :lower,
                    least: 1.51)),
        claim("D5", "“Calling C extensions blocks the whole Ruby interpreter”",
              stated(:changed, "only those that keep Ruby's lock do; pg and trilogy wait by " \
                               "themselves, mysql2 with a driver")),
        claim("D5", "Continuations leak memory, fibers do not",
              stated(:holds, "a fiber ends with its block, and a loop that closes cancels its " \
                             "fibers; continuations are no longer used")),
        claim("D5", "“You cannot pass fibers between threads”",
              stated(:holds, "Ruby raises FiberError; but any thread may wake one that waits"))
      ],
      "Rails" => [
        claim("D5", "“Sadly Rails is NOT thread safe”",
              stated(:changed, "it is since Rails 4, and safe for fibers with " \
                               "isolation_level = :fiber, which the gem sets", "RAILS.md")),
        claim("E2", "Ten requests that wait a second each: “a 9x speed improvement”",
              ratio("e2", { server: "nb", clients: 10 }, { server: "puma1" }, metric: "took_s",
                    better: :lower, least: 9)),
        claim("E3", "In very heavy work, one process is “on par with a 12 Thin cluster”",
              ratio("e5", { server: "nb", every: 10, clients: 200 }, { server: "pumas12" },
                    metric: "took_s", better: :lower, least: 0.95)),
        claim("E3", "One process “easily outperforms the 4 Thin cluster”",
              ratio("e3", { server: "nb", clients: 200 }, { server: "pumas4" }, metric: "took_s",
                    better: :lower, over: { every: [50, 20, 10] }, least: 1.1)),
        claim("E4", "With 1,000 clients it is “similar or slightly better” than with 200",
              ratio("e4", { server: "nb", clients: 1000 }, { clients: 200 }, least: 0.95)),
        claim("E5", "One process takes far less memory than a cluster",
              ratio("e5", { server: "nb", every: 10, clients: 200 }, { server: "pumas12" },
                    metric: "memory_mb", better: :lower, least: 2))
      ],
      "Threads and processes" => [
        claim("F1", "“Threads are absolutely no help at all for a CPU bound application”",
              ratio("f1", { runtime: "threads", workers: 2 }, { workers: 1 }, better: :lower,
                    over: { iterations: [500_000, 5_000_000] }, most: 1.1)),
        claim("F2", "Two processes take half the time",
              ratio("f2", { runtime: "processes", iterations: 5_000_000, workers: 2 },
                    { workers: 1 }, better: :lower, least: 1.8)),
        claim("F2", "For brief work, the cost of the processes “overwhelms the performance gains”",
              ratio("f2", { runtime: "processes", iterations: 50_000, workers: 8 },
                    { workers: 4 }, better: :lower, most: 1)),
        claim("F3", "“Ruby threads are a big help with an IO bound activity”",
              ratio("f3", { runtime: "threads", workers: 20, delay_ms: 333 }, { workers: 1 },
                    better: :lower, least: 10)),
        claim("F5", "Mysql/Ruby stops all threads while it waits",
              stated(:changed, "its heir mysql2 gives up Ruby's lock; the table says for each " \
                               "extension what it stops", "TRANSPARENCY.md")),
        claim("F6", "The collector defeats copy-on-write of forked processes",
              amount("f6", { way: "fork", collections: 10 }, unit: "MB that a child owns alone",
                     least: 20))
      ],
      "Net::HTTP" => [
        claim("G7", "A buffer of 1 K with Timeout is the worst",
              ratio("g1", { impl: "custom-1kbuffer-timeout", site: "dallas" }, { impl: "stock" },
                    better: :lower, most: 0.9)),
        claim("G7", "A buffer of 64 K is worse than one of 16 K",
              ratio("g1", { impl: "custom-64kbuffer-notimeout", site: "dallas" },
                    { impl: "custom-16kbuffer-notimeout" }, better: :lower, most: 1)),
        claim("G7", "select costs more than no timeout at all",
              ratio("g1", { impl: "custom-16kbuffer-select", site: "dallas" },
                    { impl: "custom-16kbuffer-notimeout" }, better: :lower, most: 1)),
        claim("G7", "The share of the CPU is highest where the line is fastest",
              ratio("g1", { impl: "stock", site: "dallas" }, { site: "london" },
                    metric: "cpu_percent", least: 1.1)),
        claim("G7", "Net::HTTP “is trounced by” curb",
              ratio("g2", { impl: "curb", site: "dallas" }, { impl: "stock" }, better: :lower,
                    least: 1.1)),
        claim("G8", "Net::HTTP “needs rewritten buffered I/O and an alternative to timeout”",
              stated(:changed, "Ruby did it: read_nonblock and a wait instead of Timeout",
                     "TRANSFERS.md#the-nethttp-study-2008")),
        claim("H1", "More than 64 K at a time fails unless a parameter says so",
              stated(:changed, "it was Windows; nb iotest meets no limit of sendfile, splice " \
                               "or MSG_ZEROCOPY", "TRANSFERS.md#limits-of-system-calls"))
      ],
      "EventMachine" => [
        claim("I2", "With MySQL, fibers are a little faster than threads",
              ratio("i2", { runtime: "nb_server", store: "mysql2", clients: 10_000 },
                    { runtime: "puma" }, least: 1)),
        claim("I3", "With MongoDB, fibers are 20 % slower than threads",
              ratio("i3", { runtime: "nb_server", store: "mongo", clients: 10_000 },
                    { runtime: "puma" }, most: 0.9)),
        claim("I4", "Fibers need half the memory of threads",
              ratio("i3", { runtime: "nb_server", store: "mongo", clients: 10_000 },
                    { runtime: "puma" }, metric: "memory_mb", better: :lower, least: 1.8)),
        claim("I5", "1,024 fibers serve slow services where nobody would start 1,024 threads",
              ratio("i5", { runtime: "nb", requests: 1024, delay_ms: 500 },
                    { runtime: "threads" }, metric: "cpu_us_per_op", better: :lower, least: 1.5)),
        claim("I8", "HTTP with a kept connection is almost four times as fast",
              ratio("i8", { runtime: "nb", how: "kept" }, { how: "new" }, least: 3.5)),
        claim("I9", "Fibers, not EventMachine, are to blame that they were slower than threads " \
                    "(the article leaves it open)",
              ratio("i9", { runtime: "em", way: "fiber" }, { way: "callback" }, most: 0.9))
      ]
    }.transform_values(&:freeze).freeze
  end
end

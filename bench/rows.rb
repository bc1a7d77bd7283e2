# frozen_string_literal: true

module Bench
  # Everything that the articles measured, offered or claimed, by the names that tables and pages
  # use; and what runs it today.
  #
  # page: where an answer stands, relative to docs/; nil: the section of the table that runs, or the
  # table's file where docs/BENCHMARKS.md has no numbers of it yet.
  Row = Struct.new(:id, :what, :command, :page)

  CLAIMS = "LEGACY.md#what-the-articles-said-and-what-is-true-today"
  DRIVERS = "TRANSPARENCY.md"
  TRANSFERS = "TRANSFERS.md"
  OPTIONS = "../lib/neverblock/cli/iotest.rb"
  private_constant :CLAIMS, :DRIVERS, :TRANSFERS, :OPTIONS

  # Article => its rows.
  ROWS = {
    "Ruby Networking on Steroids (2008)" => [
      ["A1", "Ruby's own sockets wait by themselves", "bin/test contract", DRIVERS],
      ["A2", "a server that answers after a delay", "nb delayd --delay 1000 --close",
       "../examples/legacy/server.rb"],
      ["A3", "20 requests to a server that takes a second; both clients, in examples/legacy",
       "nb bench a3"],
      ["A4", "any library over Net::HTTP; pools of 1,000 and 10,000", "nb bench a4"],
      ["A5", "a thousand requests, delays of 0 to 500 ms", "nb bench a5"],
      ["A6", "the advantage over threads", "nb bench a6"],
      ["A7", "a second process, and four", "nb bench a7"],
      ["A8", "descriptors above 1,024", "nb bench a8"]
    ],
    "Ruby Fibers Vs Ruby Threads (2008)" => [
      ["B1", "creating fibers, threads and Ractors; how many can be", "nb bench b1 --maps 500000"],
      ["B2", "the memory of fibers, threads and Ractors", "nb bench b2 --maps 500000"],
      ["B3", "switching, which the article did not measure", "nb bench b3"]
    ],
    "Faster IO for Ruby with Postgres (2008)" => [
      ["C1", "PostgreSQL's asynchronous calls",
       "PGHOST=HOST PGUSER=NAME PGDATABASE=NAME ruby -Ilib examples/legacy/async_postgres.rb",
       "DATABASES.md#pg"],
      ["C2", "FiberedConnectionPool and FiberPool; transactions",
       "PGHOST=HOST PGUSER=NAME PGDATABASE=NAME ruby -Ilib examples/legacy/postgres.rb",
       "LEGACY.md#what-each-does"],
      ["C3", "long and short queries; `LONG MULT`, in examples/legacy", "nb bench c3 c3_sleep"],
      ["C4", "the size of the fiber pool", "nb bench c4"],
      ["C5", "the same in a web server", "nb bench c5"],
      ["C6", "the same while others compute or write to the disk", "nb bench c6"]
    ],
    "Untwisting the Event Loop (2008)" => [
      ["D1", "an action in three forms", "ruby -Ilib examples/09_three_forms.rb", CLAIMS],
      ["D2", "what a fiber is", "ruby -Ilib examples/10_fibers.rb", CLAIMS],
      ["D3", "a fiber that waits for a callback", "ruby -Ilib examples/06_await.rb", CLAIMS],
      ["D4", "a fiber per request", "nb serve bench/served/empty.ru",
       "SERVER.md#what-the-application-sees"],
      ["D5", "claims on extensions, Rails, threads, continuations",
       "bin/test test/loop/await_test.rb", CLAIMS]
    ],
    "Making Rails 12X Faster (2008)" => [
      ["E1", "the adapter, with the application unchanged",
       "bin/test test/drivers/active_record_test.rb", "RAILS.md#adopt-in-five-minutes"],
      ["E2", "ten requests that each wait a second", "nb bench e2"],
      ["E3", "five mixes on four set-ups", "nb bench e3 e3_pool"],
      ["E4", "more concurrent requests; 10,000, and what ab prints", "nb bench e4 e4_ab"],
      ["E5", "one process per core, and its memory", "nb bench e5"]
    ],
    "Concurrency, Real and Imagined, in MRI; Threads (2009)" => [
      ["F1", "cpu_bound_threads.rb, in examples/legacy; ×10; 100 runs", "nb bench f1 --runs 100"],
      ["F2", "cpu_bound_processes.rb, in examples/legacy; ×10; 100 runs", "nb bench f2 --runs 100"],
      ["F3", "io_bound_threads.rb, in examples/legacy", "nb bench f3"],
      ["F4", "how many threads, and their memory", "nb bench b1 b2"],
      ["F5", "extensions that stop every thread", "bin/test drivers", DRIVERS],
      ["F6", "what forked processes share", "nb bench f6"],
      ["F7", "other Rubies; but JRuby runs no C extension, and Rubinius has ended",
       "nb bench f1 f2 f3 --ruby PATH"]
    ],
    "Ruby Net::HTTP performance study (2008); TransmitPackets, AsyncIoTest (2006)" => [
      ["G1", "rubyhttp: downloads from five sites", "nb rubyhttp", "#{TRANSFERS}#every-site"],
      ["G2", "Net::HTTP beside other clients", "nb rubyhttp -i all",
       "#{TRANSFERS}#every-client-at-the-fastest-site"],
      ["G3", "ways to fill Net::HTTP's buffer; in threads, async, fibers",
       "nb rubyhttp -w blocking,thread,async,nb", "#{TRANSFERS}#in-threads-and-fibers"],
      ["G4", "the thirteen columns; objects, bytes, GC, system calls", "nb rubyhttp -J --calls",
       "#{TRANSFERS}#every-client-at-the-fastest-site"],
      ["G5", "combine_csv.rb", "nb rubyhttp combine FILE.csv", "#{TRANSFERS}#his-tools-and-charts"],
      ["G6", "the charts, both ways round", "nb rubyhttp chart FILE.csv",
       "#{TRANSFERS}#his-tools-and-charts"],
      ["G7", "the findings", "nb rubyhttp findings FILE.csv",
       "#{TRANSFERS}#the-nethttp-study-2008"],
      ["G8", "the proposal: no Timeout in Net::HTTP's buffer", "nb bench g1 g8"],
      ["G9", "the sequel: EventMachine's client, three Rubies", "nb bench g2 --ruby PATH"],
      ["H1", "sizes that system calls reject", "bin/test test/cli/iotest_test.rb",
       "#{TRANSFERS}#limits-of-system-calls"],
      ["H2", "AsyncIoTest", "nb iotest", "#{TRANSFERS}#asynciotest-2006"],
      ["H2a", "server and client; nc can replace either", "nb iotest -s", OPTIONS],
      ["H2b", "network and disk, or only one of them", "nb iotest -s -n", OPTIONS],
      ["H2c", "the file, the length and its suffixes", "nb iotest -c HOST -n -l 500M", OPTIONS],
      ["H2d", "TransmitFile and TransmitPackets", "nb iotest -c HOST -f FILE -t", OPTIONS],
      ["H2e", "chunk, buffers, reads ahead, port",
       "nb iotest -c HOST -f FILE -k 256k -b 64k -o 4 -p 12345", OPTIONS],
      ["H3", "the seven recipes", "nb iotest suite", "#{TRANSFERS}#the-seven-recipes"]
    ],
    "Fiber and EventMachine (2014)" => [
      ["I1", "the four forms of a call", "ruby -Ilib examples/legacy/four_forms.rb",
       "LEGACY.md#eventmachine"],
      ["I2", "10,000 clients, MySQL; all that ab prints, GC", "nb bench i2"],
      ["I3", "10,000 clients, a driver in plain Ruby", "nb bench i3"],
      ["I4", "fibers take half the memory; collections, objects", "nb bench i2 i3"],
      ["I5", "1,024 fibers for slow services", "nb bench i5"],
      ["I6", "one request, several services", "nb bench i6"],
      ["I7", "mind the backlog", "bin/test test/server/backlog_test.rb",
       "SERVER.md#limits-and-timeouts"],
      ["I8", "kept connections", "nb bench i8"],
      ["I9", "is it Fiber or EventMachine?", "nb bench i9"],
      ["I10", "a fiber is resumed in its own thread", "bin/test test/contract/thread_test.rb",
       CLAIMS]
    ]
  }.transform_values { |rows| rows.map { |row| Row.new(*row) }.freeze }.freeze
end

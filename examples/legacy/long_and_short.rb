# frozen_string_literal: true

# What "Faster IO for Ruby with Postgres" (2008) ran as `ruby test.rb LONG MULT`: LONG times a long
# query and MULT short ones, first with one after the other, then in fibers on 12 connections.
#
# Run: PGHOST=localhost PGUSER=postgres PGDATABASE=evented \
#        ruby -Ilib examples/legacy/long_and_short.rb LONG MULT
# Changed since: the article shows its command line and results, not the program, so the queries are
# ours; the loop around select is the one of postgres.rb. As its update advises, the pool of fibers
# is made after the blocking run.
# The table: nb bench c3, c3_sleep

require "never_block/fiber_pool"
require "never_block/fibered_connection_pool"

LONG_QUERY = "select count(*) from generate_series(1, 60000) i where i % 7 = 3"

long, mult = ARGV.map { |word| Integer(word, exception: false) }
abort "usage: long_and_short.rb LONG MULT" unless long&.positive? && mult&.positive?
%w[PGHOST PGUSER PGDATABASE].all? { |name| ENV.key?(name) } or
  abort "long_and_short.rb: set PGHOST, PGUSER and PGDATABASE: they say where a PostgreSQL is"

queries = [LONG_QUERY, *["select 1"] * mult] * long
options = { host: ENV.fetch("PGHOST"), user: ENV.fetch("PGUSER"), dbname: ENV.fetch("PGDATABASE") }
cpool = FiberedConnectionPool.new(options, 12)

seconds = lambda do |&work|
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  work.call
  Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
end

blocking = seconds.call { queries.each { |sql| cpool.exec(sql) } }
fpool = FiberPool.new(100)
rows = []
nonblocking = seconds.call do
  queries.each { |sql| fpool.spawn { rows << cpool.exec(sql, true).ntuples } }
  until fpool.busy_fibers.empty?
    ready = select(cpool.sockets, nil, nil, 1) or next
    ready.first.each { |socket| socket.connection.process_command }
  end
end
puts format("%<rows>d queries, blocking %<blocking>.2f s, nonblocking %<nonblocking>.2f s, " \
            "advantage %<gain>.2f %%",
            rows: rows.sum, blocking:, nonblocking:, gain: (1 - (nonblocking / blocking)) * 100)

# frozen_string_literal: true

# The calls of "Faster IO for Ruby with Postgres" (2008) one by one: a query that is sent without
# waiting for its answer, and then what `exec` does today by itself.
#
# Run: PGHOST=localhost PGUSER=me PGDATABASE=evented ruby -Ilib examples/legacy/async_postgres.rb
# Prints:
#   sent, not answered: busy
#   the answer: 42
#   3 queries of 0.5 s took 0.5 s, by exec in fibers
# Changed since, and why:
# - PGconn is PG::Connection, and `socket_io` is the IO that the article made of `socket`, which
#   must not be closed twice
# - `select` waits until there is something to read, not a thousandth of a second again and again
# - the gem that mended the number of arguments is no longer needed

require "neverblock"
require "pg"

%w[PGHOST PGUSER PGDATABASE].all? { |name| ENV.key?(name) } or
  abort "async_postgres.rb: set PGHOST, PGUSER and PGDATABASE: they say where a PostgreSQL is"

conn = PG.connect # the rest is in the environment, too
conn.setnonblocking(true)
conn.send_query("select pg_sleep(0.1), 42 as answer")
socket = conn.socket_io
conn.consume_input
puts "sent, not answered: #{conn.is_busy ? "busy" : "ready"}"

results = []
loop do
  conn.consume_input while conn.is_busy && select([socket], nil, nil, 1)
  result = conn.get_result or break # nil: there are no more
  results << result.getvalue(0, 1)
end
puts "the answer: #{results.join(", ")}"
conn.close

# All of this is in `exec`, which waits in the loop.
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
NB.run do
  NB.map(1..3, concurrency: 3) do
    PG.connect { |connection| connection.exec("select pg_sleep(0.5)") }
  end
end
took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
puts "3 queries of 0.5 s took #{took.round(1)} s, by exec in fibers"

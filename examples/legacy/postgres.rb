# frozen_string_literal: true

# The program of "Faster IO for Ruby with Postgres" (2008): a fiber pool, a connection pool, and the
# article's own event loop around `select`. No loop of ours runs here.
#
# Run: PGHOST=localhost PGUSER=postgres PGDATABASE=evented ruby -Ilib examples/legacy/postgres.rb
# Changed since, and why:
# - both files are in the gem, so their names begin with never_block/
# - where the database is comes from the environment, as libpq has it
# - the commands are given, and their results counted
# - the loop ends when the work is done, and waits for the sockets up to a second at a time instead
#   of turning forever

require "never_block/fiber_pool"
require "never_block/fibered_connection_pool"

%w[PGHOST PGUSER PGDATABASE].all? { |name| ENV.key?(name) } or
  abort "postgres.rb: set PGHOST, PGUSER and PGDATABASE: they say where a PostgreSQL is"
options = { host: ENV.fetch("PGHOST"), user: ENV.fetch("PGUSER"), dbname: ENV.fetch("PGDATABASE") }

cpool = FiberedConnectionPool.new(options, 12)
# second param is the number of connections to spawn, defaults at 8
# note that one more connection than those will be spawned. This one
# will be used for processing blocking requests.

fpool = FiberPool.new(100)
# the number of fibers to spawn, defaults at 50

rows = []
100.times do |i|
  fpool.spawn do
    rows << cpool.exec("SELECT #{i}", true).ntuples # true means async
    rows << cpool.exec("SELECT pg_sleep(0.01)", true).ntuples
    rows << cpool.exec("SELECT generate_series(1, 3)", true).ntuples
  end
end

# our event loop
until fpool.busy_fibers.empty?
  res = select(cpool.sockets, nil, nil, 1) # check for something to read
  # IO is monkey patched to be able to hold a reference to the connection
  res.first.each { |s| s.connection.process_command } if res
end
puts "#{rows.sum} rows, and a blocking one: #{cpool.exec("SELECT 'blocking'").getvalue(0, 0)}"

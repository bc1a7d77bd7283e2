# frozen_string_literal: true

# Forty fibers share four connections, in order of arrival. A fiber that gets none in time learns
# why.
#
# Run: ruby -Ilib examples/05_connection_pool.rb
# Prints:
#   40 queries of 20 ms on 4 connections took 0.2 s
#   connections made: 4
#   NB::PoolTimeoutError: no connection within 0.02 s (4 of 4 in use, 1 waiting)

require "neverblock"

# Stands for a database driver whose `query` waits on a socket.
class Connection
  def query = sleep(0.02)
end

made = 0
pool = NB::ConnectionPool.new(size: 4) { (made += 1) && Connection.new }

NB.run do
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  NB.gather(*Array.new(40) { -> { pool.with(&:query) } })
  took = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(1)
  puts "40 queries of 20 ms on 4 connections took #{took} s"
  puts "connections made: #{made}"

  4.times { NB.async { pool.with { sleep 0.1 } } }
  pool.with(timeout: 0.02, &:query)
rescue NB::PoolTimeoutError => error
  puts "#{error.class}: #{error.message[/.+\)/]}"
end

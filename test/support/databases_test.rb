# frozen_string_literal: true

require "minitest/autorun"
require_relative "databases"
require_relative "program"

class DatabasesTest < Minitest::Test
  def test_postgresql_keeps_its_data_over_a_restart
    place = Databases.postgresql
    psql(place, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
    place.restart { assert_raises(Errno::ECONNREFUSED) { TCPSocket.new(place.host, place.port) } }
    assert_equal "7", psql(place, "SELECT n FROM kept")
    assert_equal "t", psql(place, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
  end

  # At the end of a run nothing waits for them.
  def test_postgresql_ends_before_its_clients
    place = Databases.postgresql
    IO.popen(["psql", "-qAt", place.url], "r+") do |client|
      client.puts("SELECT 7;")
      assert_equal "7\n", client.gets
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      Servers.stop("postgresql")
      assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, :<, Servers::ENDING
    end
  end

  def test_mariadb_keeps_its_data_over_a_crash
    place = Databases.mariadb
    mariadb(place, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
    place.restart(signal: :KILL)
    assert_equal "7", mariadb(place, "SELECT n FROM kept")
    assert_match(/TLS/, mariadb(place, "SHOW STATUS LIKE 'Ssl_cipher'", "--ssl"))
  end

  def test_redis_and_memcached_answer
    assert_equal "+PONG\r\n", ask(Databases.redis, "PING\r\n")
    assert_match(/\AVERSION /, ask(Databases.memcached, "version\r\n"))
  end

  private

  def psql(place, sql) = output("psql", "-qAt", place.url, "-c", sql)

  def mariadb(place, sql, *options)
    output("mariadb", *options, "-NB", "-h", place.host, "-P", place.port.to_s,
           "-u", place.user, "-p#{place.password}", place.database, "-e", sql)
  end

  def output(*command)
    text, status = Open3.capture2e(*command)
    assert_predicate status, :success?, text
    text.strip
  end

  def ask(place, line)
    TCPSocket.open(place.host, place.port) do |socket|
      socket.write(line)
      socket.gets
    end
  end
end

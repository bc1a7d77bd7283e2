# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "trilogy"
require_relative "../support/databases"

# begin_db_transaction and its two ends, which both pools of 2008 have.
class LegacyTransactionsTest < Minitest::Test
  # A connection without a database, which refuses everything.
  class Refusing
    def query(sql) = raise(KeyError, sql)
  end

  # As the adapters of ActiveRecord do, it has these methods itself.
  class Adapter
    def calls = @calls ||= []
    def begin_db_transaction = calls << :begin
    def rollback_db_transaction = calls << :rollback
  end

  # Six fibers on two connections.
  def test_what_a_fiber_begins_is_its_own_until_it_ends_it
    each_pool do |name, pool, id|
      query(pool, "CREATE TABLE legacy_begun (n INT)")
      NB.run { 6.times { |i| NB.async { write(pool, id, i) } } }
      rows = query(pool, "SELECT n FROM legacy_begun ORDER BY n").map { |row| row["n"].to_i }
      assert_equal [name, [0, 2, 4]], [name, rows]
    ensure
      query(pool, "DROP TABLE legacy_begun")
    end
  end

  # In a fiber that ends, in a block of either fiber pool, and in such a block without a loop.
  def test_what_is_left_open_is_rolled_back
    each_pool do |name, pool, _|
      query(pool, "CREATE TABLE legacy_left (n INT)")
      leave = lambda do
        pool.begin_db_transaction
        query(pool, "INSERT INTO legacy_left VALUES (1)")
      end
      [-> { NB.run { NB.async(&leave) } },
       -> { NB.run { NB::FiberPool.new(1).tap { |fibers| fibers.spawn(&leave) }.wait } },
       -> { NB.run { NB::Pool::FiberPool.new(1).spawn(&leave) } },
       -> { NB::Pool::FiberPool.new(1).spawn(&leave) }].each_with_index do |way, i|
        way.call
        assert_equal [name, i, 0], [name, i, query(pool, "SELECT n FROM legacy_left").size]
      end
    ensure
      query(pool, "DROP TABLE legacy_left")
    end
  end

  # The database has rolled back: each further command would commit by itself.
  def test_nothing_goes_on_in_a_transaction_whose_connection_an_interruption_has_cost
    each_pool do |name, pool, _|
      query(pool, "CREATE TABLE legacy_cut (n INT)")
      nap = name.start_with?("pg") ? "SELECT pg_sleep(1)" : "SELECT SLEEP(1)"
      ways = [NB.method(:async), method(:in_pool)]
      told = %i[rollback begin commit].product(ways).map do |last, way|
        answers = Queue.new
        NB.run { way.call { answers << cut(pool, nap, last) } }
        answers.pop(true)
      end
      lost = NB::NBError
      assert_equal [[lost, lost, :done]] * 4 + [[lost, lost, lost]] * 2, told, name
      rows = query(pool, "SELECT n FROM legacy_cut").map { |row| row["n"].to_i }
      assert_equal [2] * 6, rows, name
    ensure
      query(pool, "DROP TABLE legacy_cut")
    end
  end

  # Otherwise the second one waits forever.
  def test_what_fails_returns_the_connection
    pool = NB::Pool::FiberedConnectionPool.new(size: 1) { Refusing.new }
    NB.run do
      %w[BEGIN COMMIT ROLLBACK].product([1, 2]).each do |sql, _|
        fiber = NB.async do
          assert_raises(KeyError) { pool.public_send("#{sql.downcase}_db_transaction") }.message
        end
        assert_equal sql, NB.timeout(5) { fiber.value }
      end
    end
  end

  def test_inside_of_a_hold_the_connection_remains_the_holders
    pool = NB::Pool::FiberedConnectionPool.new(size: 1) { Adapter.new }
    pool.hold do |connection|
      pool.begin_db_transaction
      pool.rollback_db_transaction
      assert_same connection, pool.held_by(Fiber.current)
    end
    assert_nil pool.held_by(Fiber.current)
  end

  # The database judges a second begin. It must not make the first one forgotten.
  def test_a_second_begin_keeps_the_connection_for_one_end
    pool = NB::Pool::FiberedConnectionPool.new(size: 1) { Adapter.new }
    fibers = NB::Pool::FiberPool.new(1)
    fibers.spawn do
      2.times { pool.begin_db_transaction }
      pool.rollback_db_transaction
      assert_nil pool.held_by(Fiber.current)
      2.times { pool.begin_db_transaction }
    end
    fibers.spawn { assert_nil pool.held_by(Fiber.current) }
  end

  # A worker's block may never end.
  def test_a_block_of_many_transactions_has_one_callback
    pool = NB::Pool::FiberedConnectionPool.new(size: 1) { Adapter.new }
    NB::Pool::FiberPool.new(1).spawn do
      10.times { [pool.begin_db_transaction, pool.rollback_db_transaction] }
      assert_equal 1, NB::Legacy::Locals.of(Fiber.current)[:callbacks].size
    end
  end

  def test_a_connection_with_such_methods_of_its_own_is_asked_by_these
    made = []
    pools(1, -> { Adapter.new.tap { |one| made << one } }).each do |pool|
      pool.begin_db_transaction
      pool.rollback_db_transaction
    end
    assert_equal [%i[begin rollback]] * 2, made.map(&:calls)
  end

  # The driver knows, however the transaction has ended.
  ["/* or so */ COMMIT", "CREATE OR REPLACE TABLE legacy_ended (n INT)"].each_with_index do |sql, i|
    { mysql2: :mysql, trilogy: :trilogy }.each do |name, connect|
      define_method("test_a_transaction_of_#{name}_that_has_ended_keeps_no_connection_#{i}") do
        db = NB::DB::PooledDBConnection.new(1) { send(connect) }
        NB.run do
          NB.async do
            ["BEGIN", "SELECT 1", sql].each { |one| db.exec(one) }
            NB.async { Timeout.timeout(5) { db.exec("SELECT 1") } }.value
          end.value
        end
      ensure
        db.query("DROP TABLE IF EXISTS legacy_ended")
        db.instance_variable_get(:@pool).all_connections(&:close)
      end
    end
  end

  private

  def write(pool, id, number)
    pool.begin_db_transaction
    first = query(pool, id)
    query(pool, "INSERT INTO legacy_begun VALUES (#{number})")
    sleep 0.001
    assert_equal first, query(pool, id)
    number.even? ? pool.commit_db_transaction : pool.rollback_db_transaction
    assert_nil inner(pool).held_by(Fiber.current)
  end

  # Writes 1 in a transaction that is cut, in which nothing more may be written, and then 2.
  def cut(pool, nap, last)
    pool.begin_db_transaction
    query(pool, "INSERT INTO legacy_cut VALUES (1)")
    assert_raises(Timeout::Error) { NB.timeout(0.1) { query(pool, nap) } }
    told = Array.new(2) { outcome { query(pool, "INSERT INTO legacy_cut VALUES (1)") } }
    told << outcome { pool.public_send("#{last}_db_transaction") }
    query(pool, "INSERT INTO legacy_cut VALUES (2)")
    pool.commit_db_transaction if last == :begin
    told
  end

  def outcome
    yield
    :done
  rescue NB::NBError => error
    error.class
  end

  def in_pool(&) = NB::Pool::FiberPool.new(1).spawn(&).wait

  def each_pool
    %i[postgresql mariadb].each do |name|
      Databases.there?(name) || missing(name.to_s)
    end
    {"pg" => [method(:postgres), "SELECT pg_backend_pid() AS id"],
     "mysql2" => [method(:mysql), "SELECT CONNECTION_ID() AS id"]}.each do |name, (connect, id)|
      pools(2, connect).each do |pool|
        yield "#{name}, #{pool.class}", pool, id
      ensure
        inner(pool).all_connections(&:close)
      end
    end
  end

  def pools(size, connect)
    [NB::Pool::FiberedConnectionPool.new(size: size, &connect),
     NB::DB::PooledDBConnection.new(size, &connect)]
  end

  def inner(pool) = pool.instance_variable_get(:@pool) || pool

  def query(pool, sql)
    return pool.query(sql).to_a if pool.is_a?(NB::DB::PooledDBConnection)

    pool.hold { |connection| connection.query(sql).to_a }
  end

  def postgres
    place = Databases.postgresql
    NB::DB::FPGconn.connect(host: place.host, port: place.port, user: place.user,
                            password: place.password, dbname: place.database)
  end

  def mysql = NB::DB::FMysql.new(**Databases.mariadb.options)
  def trilogy = Trilogy.new(Databases.mariadb.options)
end

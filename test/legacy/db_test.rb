# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "stringio"
require "neverblock"
require "trilogy"
require_relative "../support/databases"
require_relative "../support/ticker"
require_relative "../support/clock"
require_relative "../support/timing"

# What the database tests of 2008 assert, against today's servers and drivers.
class LegacyDatabasesTest < Minitest::Test
  include Clock

  def setup
    %i[postgresql mariadb].each do |name|
      Databases.there?(name) ? Databases.public_send(name) : missing(name.to_s)
    end
    [NB::DB::FPGconn, NB::DB::FMysql] # loaded before the clock runs
  end

  # A block that raises, or only ends, in the middle of a transaction.
  def test_a_connection_in_a_transaction_is_not_handed_over
    place = Databases.mariadb
    { "pg" => -> { PG.connect(Databases.postgresql.url) },
      "mysql2" => -> { NB::DB::FMysql.new(**place.options) },
      "trilogy" => -> { Trilogy.new(place.options) } }.each do |name, connect|
      pool = NB::Pool::FiberedConnectionPool.new(size: 1, &connect)
      left = NB.run do
        [-> { raise ArgumentError }, -> {}].map do |last|
          pool.hold { |connection| connection.query("BEGIN") && last.call }
        rescue ArgumentError
          nil
        ensure
          pool.hold { |connection| assert_equal([name, false], [name, NB::Tidy.in_transaction?(connection)]) }
        end
      end
      assert_equal 2, left.size
      pool.all_connections(&:close)
    end
  end

  # --- PostgreSQL ---------------------------------------------------------------------------------

  def test_ten_queries_of_a_second_tenth_on_ten_connections_take_one_and_on_five_two
    [[10, 0.2], [5, 0.4]].each do |size, expected|
      db = pooled(size)
      NB.run { size.times { NB.async { db.exec("SELECT 1") } } } # connects
      took = seconds { NB.run { 10.times { NB.async { db.exec("SELECT pg_sleep(0.2)") } } } }
      assert_between expected, 1, took
      assert_equal size, count(db)
      close(db)
    end
  end

  def test_seventeen_fibers_on_eight_connections_take_three_turns
    db = pooled(8)
    fibers = NB::Pool::FiberPool.new(17)
    NB.run { 8.times { fibers.spawn { db.exec("SELECT 1") && sleep(0.01) } } }
    took = seconds { NB.run { 17.times { fibers.spawn { db.exec("SELECT pg_sleep(0.2)") } } } }
    assert_between 0.6, 1.7, took
    assert_equal 8, count(db)
  ensure
    close(db)
  end

  def test_others_go_on_meanwhile
    NB.run do
      ticker = Ticker.new
      beat = NB.async { ticker.run }
      db = pooled(2)
      sleeps = Array.new(4) { NB.async { db.query("SELECT pg_sleep(0.1)") } }
      assert_equal "1", db.query("SELECT 1 AS one").first["one"]
      sleeps.each(&:wait)
      ticker.stop
      beat.wait
      close(db)
      assert_in_time ticker.stillest.still, 0.05
    end
  end

  # A pooled fiber has the next request soon.
  def test_drivers_that_cannot_be_asked_may_get_any_bytes
    place = Databases.mariadb
    db = NB::DB::PooledDBConnection.new(1) { NB::DB::FMysql.new(**place.options) }
    commands = ["BEGIN", "SELECT HEX('\xFF') AS n", "COMMIT"]
    found = NB.run { commands.map { |sql| db.query(sql)&.to_a } }

    assert_equal [nil, [{"n" => "FF"}], nil], found
  ensure
    close(db)
  end

  def test_a_transaction_ends_with_the_request_that_raised
    db = pooled(1)
    with_table(db) do |table|
      serve(writes(db, table)) do |port|
        assert_equal %w[500 200 200], %w[/raise / /].map { |path| status(port, path) }
        assert_equal 2, outside(table)
      end
    end
  ensure
    close(db)
  end

  def test_a_transaction_ends_with_the_work_of_a_pooled_fiber
    db = pooled(1)
    with_table(db) do |table|
      fibers = NB::FiberPool.new(1)
      NB.run do
        fibers.spawn { db.exec("BEGIN") && db.exec("INSERT INTO #{table} VALUES (1)") }
        fibers.spawn { db.exec("INSERT INTO #{table} VALUES (2)") }
      end
      assert_equal 1, outside(table)
    end
  ensure
    close(db)
  end

  def test_the_connection_of_old_is_one_of_pg
    connection = postgres
    assert_kind_of NB::DB::FiberedPostgresConnection, connection
    assert_equal [["1"]], connection.exec("SELECT 1").values
    assert_equal [["2"]], connection.query("SELECT $1::int", [2]).values
    assert_raises(PG::SyntaxError) { connection.exec("SELEC") }
    assert_equal PG::CONNECTION_OK, connection.status
  ensure
    connection&.close
  end

  def test_a_lost_connection_is_reset_for_the_next_command
    connection = postgres
    killer = postgres
    killer.exec("SELECT pg_terminate_backend(#{connection.backend_pid})")
    assert_raises(PG::Error) { 20.times { connection.exec("SELECT 1") && sleep(0.01) } }
    assert_equal "1", connection.exec("SELECT 1").getvalue(0, 0)
  ensure
    [connection, killer].compact.each(&:close)
  end

  def test_a_transaction_stays_on_its_connection_in_any_fiber
    db = pooled(3)
    db.exec("CREATE TABLE IF NOT EXISTS legacy (n int)")
    db.exec("TRUNCATE legacy")
    NB.run do
      6.times do |i|
        NB.async do
          db.exec("BEGIN")
          pid = db.exec("SELECT pg_backend_pid()").getvalue(0, 0)
          db.exec("INSERT INTO legacy VALUES (#{i})")
          assert_equal pid, db.exec("SELECT pg_backend_pid()").getvalue(0, 0)
          db.exec(i.even? ? "COMMIT" : "ROLLBACK")
        end
      end
    end
    assert_equal %w[0 2 4], db.exec("SELECT n FROM legacy ORDER BY n").column_values(0)
    assert_operator count(db), :<=, 3
  ensure
    db.exec("DROP TABLE legacy")
    close(db)
  end

  def test_what_a_fiber_left_open_is_rolled_back
    db = pooled(1)
    db.exec("CREATE TABLE IF NOT EXISTS legacy_open (n int)")
    NB.run { NB.async { db.exec("BEGIN") && db.exec("INSERT INTO legacy_open VALUES (1)") } }
    pool = NB::Pool::FiberPool.new(1)
    NB.run { pool.spawn { db.exec("BEGIN") && db.exec("INSERT INTO legacy_open VALUES (2)") } }
    assert_empty db.exec("SELECT * FROM legacy_open").values
  ensure
    db.exec("DROP TABLE legacy_open")
    close(db)
  end

  def test_a_block_of_the_fiber_pool_keeps_its_connection_until_its_end
    db = pooled(2)
    fibers = NB::Pool::FiberPool.new(2)
    NB.run do
      3.times do
        fibers.spawn do
          db.exec("SET application_name TO 'fiber #{Fiber.current.object_id}'")
          sleep 0.01
          name = db.exec("SHOW application_name").getvalue(0, 0)
          assert_equal "fiber #{Fiber.current.object_id}", name
        end
      end
    end
    assert_equal 2, count(db)
  ensure
    close(db)
  end

  def test_an_interrupted_query_costs_its_connection_and_nothing_else
    db = pooled(1)
    NB.run do
      assert_raises(Timeout::Error) { NB.timeout(0.05) { db.exec("SELECT pg_sleep(5)") } }
      assert_equal "1", db.exec("SELECT 1").getvalue(0, 0)
      assert_raises(PG::UndefinedTable) { db.exec("SELECT * FROM no_such_table") }
      assert_equal "2", db.exec("SELECT 2").getvalue(0, 0)
      assert_equal PG::PQTRANS_IDLE, db.transaction_status # any method of the connection
      assert_raises(NoMethodError) { db.no_such_method }
    end
  ensure
    close(db)
  end

  def test_a_connection_is_replaced_on_demand
    db = pooled(1)
    db.exec("BEGIN")
    before = db.backend_pid
    db.replace_acquired_connection
    refute_equal before, db.backend_pid
  ensure
    close(db)
  end

  # --- the pool of the first article --------------------------------------------------------------

  def test_the_first_articles_pool_has_one_more_connection_for_blocking_requests
    pool = NB::Pool::FiberedConnectionPool.new(postgres_options, 3)
    assert_equal [3, 3], [pool.size, count(pool)]
    pids = 2.times.map { pool.exec("SELECT pg_backend_pid()").getvalue(0, 0) }.uniq
    assert_equal 1, pids.size
    pool.all_connections { |connection| refute_equal pids.first, connection.backend_pid.to_s }
    NB.run do
      ticks = 0
      NB.async { 100.times { (ticks += 1) && sleep(0.001) } }
      before = ticks
      assert_equal "blocking", pool.exec("SELECT 'blocking' FROM pg_sleep(0.05)").getvalue(0, 0)
      assert_equal before, ticks # everything waits
      assert_equal "async", pool.exec("SELECT 'async' FROM pg_sleep(0.05)", true).getvalue(0, 0)
      assert_operator ticks, :>, before
    end
  ensure
    close(pool)
  end

  def test_the_first_articles_pool_without_a_loop_goes_by_select
    pool = NB::Pool::FiberedConnectionPool.new(postgres_options, 4)
    fibers = NB::Pool::FiberPool.new(20)
    rows = []
    20.times do |i|
      fibers.spawn do
        3.times { |j| rows << pool.exec("SELECT #{i}, #{j}", true).values.first.map(&:to_i) }
      end
    end
    until fibers.busy_fibers.empty?
      ready, = select(pool.sockets, nil, nil, 1)
      ready.each { |socket| socket.connection.process_command }
    end
    assert_equal [0, 1, 2].product((0..19).to_a).map(&:reverse).sort, rows.sort
    20.times { |i| assert_equal [0, 1, 2], rows.select { |row| row.first == i }.map(&:last) }
    assert_empty pool.sockets
    assert_equal 4, count(pool)
  ensure
    close(pool)
  end

  def test_without_a_loop_an_error_comes_out_of_exec
    pool = NB::Pool::FiberedConnectionPool.new(postgres_options, 1)
    error = nil
    fiber = Fiber.new do
      pool.exec("SELEC", true)
    rescue PG::Error => e
      error = e
    end
    fiber.resume
    select(pool.sockets).first.each { |io| io.connection.process_command } while fiber.alive?
    assert_kind_of PG::SyntaxError, error
    assert_equal 1, count(pool)
  ensure
    close(pool)
  end

  # --- MariaDB ------------------------------------------------------------------------------------

  def test_mysql_twenty_queries_of_a_tenth_on_ten_connections
    db = NB::DB::PooledDBConnection.new(10) { mysql }
    NB.run { 10.times { NB.async { db.query("SELECT 1") } } }
    took = seconds { NB.run { 20.times { NB.async { db.query("SELECT SLEEP(0.1)") } } } }
    assert_between 0.2, 1, took
  ensure
    close(db)
  end

  def test_mysql_a_transaction_stays_on_its_connection_and_an_open_one_is_rolled_back
    db = NB::DB::PooledDBConnection.new(2) { mysql }
    db.query("CREATE TABLE legacy (n INT) ENGINE=InnoDB")
    NB.run do
      4.times do |i|
        NB.async do
          db.exec("BEGIN")
          id = db.query("SELECT CONNECTION_ID() AS id").first
          db.exec("INSERT INTO legacy VALUES (#{i})")
          assert_equal id, db.query("SELECT CONNECTION_ID() AS id").first
          db.exec("COMMIT") unless i == 3
        end
      end
    end
    NB.run do
      ["/* or so */ BEGIN", "INSERT INTO legacy VALUES (4)", "ROLLBACK"].each { |sql| db.exec(sql) }
    end
    db.exec("SELECT 1")
    assert_equal [0, 1, 2], db.query("SELECT n FROM legacy ORDER BY n").map { |row| row["n"] }
  ensure
    db.query("DROP TABLE legacy")
    close(db)
  end

  # Trilogy shuts its socket down and does not call itself closed.
  def test_mysql_an_error_that_ended_a_query_costs_its_connection_and_nothing_else
    options = Databases.mariadb.options
    [-> { mysql }, -> { Trilogy.new(options) }].each do |connect|
      db = NB::DB::PooledDBConnection.new(1, &connect)
      NB.run do
        assert_raises(KeyError) { Timeout.timeout(0.1, KeyError) { db.query("SELECT SLEEP(9)") } }
        assert_equal 1, db.query("SELECT 1 AS one").count
      end
    ensure
      close(db)
    end
  end

  def test_mysql_connects_as_of_old
    place = Databases.mariadb
    arguments = [place.host, place.user, place.password, place.database, place.port]
    %i[real_connect connect].each do |name|
      connection = NB::DB::FMysql.public_send(name, *arguments)
      assert_equal [{ "one" => 1 }], connection.exec("SELECT 1 AS one").to_a
      connection.close
    end
  end

  private

  def with_table(db)
    db.exec("CREATE TABLE left_open (n int)")
    yield "left_open"
  ensure
    db.exec("DROP TABLE left_open")
  end

  def writes(db, table)
    lambda do |env|
      raising = env["PATH_INFO"] == "/raise"
      db.exec("BEGIN") if raising
      db.exec("INSERT INTO #{table} VALUES (1)")
      raise "in the middle" if raising

      [200, {}, []]
    end
  end

  def serve(app)
    require "neverblock/server"
    started = Thread::Queue.new
    server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", fibers: 1, log: StringIO.new)
    thread = Thread.new { server.run { started << server.port } }
    yield started.pop
  ensure
    server&.stop
    thread&.join
  end

  def status(port, path) = Net::HTTP.get_response(URI("http://127.0.0.1:#{port}#{path}")).code

  # What others see.
  def outside(table) = Integer(postgres.exec("SELECT count(*) FROM #{table}").getvalue(0, 0))

  def postgres_options
    place = Databases.postgresql
    { host: place.host, port: place.port, user: place.user, password: place.password,
      dbname: place.database }
  end

  def postgres = NB::DB::FPGconn.connect(**postgres_options)
  def mysql = NB::DB::FMysql.new(**Databases.mariadb.options)
  def pooled(size) = NB::DB::PooledDBConnection.new(size) { postgres }
  def pool_of(db) = db.instance_variable_get(:@pool) || db

  def count(db)
    count = 0
    pool_of(db).all_connections { count += 1 }
    count
  end

  def close(db)
    return unless db

    pool_of(db).all_connections(&:close)
    pool_of(db).instance_variable_get(:@blocking_connection)&.close
  end
end

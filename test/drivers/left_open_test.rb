# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each

require "minitest/autorun"
require "neverblock"
require "active_record"
require "mysql2"
require "pg"
require "sqlite3"
require "tmpdir"
require "trilogy"
require_relative "../support/databases"

# A connection that was given back with a transaction open, or in the middle of something else: the
# next one gets it clean, in NB::ConnectionPool and in ActiveRecord.
class LeftOpenTest < Minitest::Test
  # A connection of each library, and all values of a column by another one.
  LIBRARIES = {
    "pg" => [->(_) { PG.connect(Databases.postgresql.url) }, ->(db, sql) { db.exec(sql).values.flatten }],
    "mysql2" => [->(_) { Mysql2::Client.new(**Databases.mariadb.options) }, ->(db, sql) { db.query(sql, as: :array).to_a.flatten }],
    "trilogy" => [->(_) { Trilogy.new(Databases.mariadb.options) }, ->(db, sql) { db.query(sql).rows.flatten }],
    "sqlite3" => [->(folder) { SQLite3::Database.new("#{folder}/x.db") }, ->(db, sql) { db.execute(sql).flatten }]
  }.freeze
  ADAPTERS = { "postgresql" => :postgresql, "mysql2" => :mariadb, "trilogy" => :mariadb, "sqlite3" => nil }.freeze

  # What pg leaves beside.
  LEFTOVERS = {
    "a query" => ->(db) { db.send_query("SELECT pg_sleep(20)") },
    "half an answer" => ->(db) { db.send_query("SELECT 1; SELECT 2") && db.get_result },
    "COPY to the server" => ->(db) { db.exec("COPY left_open FROM STDIN") && db.put_copy_data("7\n") },
    "COPY from the server" => ->(db) { db.exec("COPY (SELECT generate_series(1, 100000)) TO STDOUT") && db.get_copy_data },
    "a pipeline" => ->(db) { db.enter_pipeline_mode },
    "a pipeline with queries" => ->(db) { db.enter_pipeline_mode && db.send_query_params("SELECT 1", []) && db.pipeline_sync }
  }.freeze

  # What mysql2 and trilogy leave beside.
  MULTI = { "mysql2" => { flags: Mysql2::Client::MULTI_STATEMENTS }, "trilogy" => { multi_statement: true } }.freeze
  UNREAD = {
    "mysql2 an asynchronous query" => ->(db) { db.query("SELECT 1", async: true) },
    "mysql2 a slow asynchronous query" => ->(db) { db.query("SELECT SLEEP(20)", async: true) },
    "mysql2 a stream" => ->(db) { db.query("SELECT 1 UNION SELECT 2", stream: true, cache_rows: false) },
    "mysql2 half a stream" => ->(db) { db.query("SELECT 1 UNION SELECT 2", stream: true, cache_rows: false).first },
    "mysql2 a second result" => ->(db) { db.query("SELECT 1; SELECT 2") },
    "mysql2 a prepared stream" => ->(db) { db.prepare("SELECT 1 UNION SELECT 2").execute(stream: true, cache_rows: false) },
    "trilogy a second result" => ->(db) { db.query("SELECT 1; SELECT 2") },
    # Its packets have the numbers that the answer to another query would have.
    "trilogy a second result that looks like another answer" => ->(db) { db.query("SELECT seq FROM seq_1_to_253; SELECT 2") }
  }.freeze

  LIBRARIES.each do |name, (connect, read)|
    %w[threads loop].each do |world|
      define_method("test_a_pool_of_ours_with_#{name}_in_#{world}") do
        inside(world) { pool_with(connect, read) }
      end
    end
  end

  LEFTOVERS.each do |what, leave|
    define_method("test_pg_with_#{what.tr(" ", "_")}") do
      connect, read = LIBRARIES.fetch("pg")
      NB.run do
        watched(connect, read) do |pool, _|
          pool.with { |db| leave.call(db) }
          assert_equal [["42"], ["0"]], pool.with { |db| [read[db, "SELECT 42"], read[db, "SELECT count(*) FROM left_open"]] }
        end
      end
    end
  end

  UNREAD.each do |what, leave|
    ways = { "" => ->(pool) { pool.with { |db| leave.call(db) } },
             "_by_an_error" => ->(pool) { pool.with { |db| leave.call(db) && raise(KeyError) } rescue KeyError } }
    ways.each do |way, left|
      define_method("test_#{what.tr(" ", "_")}#{way}") do
        NB.run do
          NB.timeout(15) do
            pool = mysql_pool(what[/\w+/])
            2.times do
              left.call(pool)
              assert_equal [42], pool.with { |db| LIBRARIES.fetch(what[/\w+/]).last[db, "SELECT 42"] }
            end
          end
        end
      end
    end
  end

  # Somebody rescued the error, so the block ended as ever.
  %w[mysql2 trilogy].each do |library|
    define_method("test_#{library}_lost_in_the_block") do
      NB.run do
        pool = mysql_pool(library)
        pool.with do |db|
          Timeout.timeout(0.1) { db.query("SELECT SLEEP(20)") }
        rescue Timeout::Error
          nil
        end
        assert_equal [42], pool.with { |db| LIBRARIES.fetch(library).last[db, "SELECT 42"] }
      end
    end
  end

  # Costs a ROLLBACK, not the connection.
  def test_mysql2_keeps_a_connection_whose_stream_was_read
    NB.run do
      pool = NB::ConnectionPool.new(size: 1) { Mysql2::Client.new(**Databases.mariadb.options) }
      ids = Array.new(3) do
        pool.with do |db|
          assert_equal [[1], [2]], db.query("SELECT 1 UNION SELECT 2", stream: true, cache_rows: false, as: :array).to_a
          db.thread_id
        end
      end
      assert_equal 1, ids.uniq.size
    end
  end

  ADAPTERS.each do |adapter, server|
    define_method("test_activerecord_with_#{adapter}") do
      Dir.mktmpdir do |folder|
        options = server ? Databases.public_send(server).options : { database: "#{folder}/x.db" }
        activerecord(adapter, options)
      end
    end
  end

  # A test's own transaction, as that of DatabaseCleaner: its connection is given back after each
  # request, and taken again.
  def test_activerecord_keeps_a_transaction_that_is_not_joinable
    model("postgresql", Databases.postgresql.options) do |base|
      pids = NB.run do
        base.with_connection { |db| db.begin_transaction(joinable: false, _lazy: false) }
        Array.new(2) { base.with_connection { |db| [db.transaction_open?, db.select_value("SELECT pg_backend_pid()")] } }
          .tap { base.with_connection(&:rollback_transaction) }
      end
      assert_equal [[true, pids[0][1]]] * 2, pids
    end
  end

  # A transaction that is ended belongs to nobody, and costs nothing.
  def test_activerecord_keeps_a_connection_whose_transaction_was_ended
    model("postgresql", Databases.postgresql.options) do |base|
      same = NB.run do
        Array.new(3) { base.with_connection { |db| db.execute("BEGIN") && db.execute("COMMIT") && db.raw_connection.backend_pid } }
      end
      assert_equal 1, same.uniq.size
    end
  end

  private

  def inside(world, &block) = world == "loop" ? NB.run(&block) : yield

  def mysql_pool(library)
    options = Databases.mariadb.options.merge(MULTI.fetch(library))
    NB::ConnectionPool.new(size: 1) { library == "mysql2" ? Mysql2::Client.new(**options) : Trilogy.new(options.dup) }
  end

  # A pool of one connection, and a watcher.
  def watched(connect, read)
    Dir.mktmpdir do |folder|
      pool = NB::ConnectionPool.new(size: 1) { connect[folder] }
      watcher = connect[folder]
      read[watcher, "DROP TABLE IF EXISTS left_open"]
      read[watcher, "CREATE TABLE left_open (n int)"]
      yield pool, ->(sql) { read[watcher, sql].map(&:to_i) }
    ensure
      pool&.close
      watcher&.close
    end
  end

  def pool_with(connect, read)
    watched(connect, read) do |pool, watch|
      first = pool.with do |db|
        ["BEGIN", "INSERT INTO left_open VALUES (1)"].each { |sql| read[db, sql] }
        db
      end
      pool.with { |db| read[db, "INSERT INTO left_open VALUES (2)"] && assert_same(first, db) }
      assert_equal [2], watch["SELECT n FROM left_open"]
    end
  end

  def model(adapter, options)
    base = Class.new(ActiveRecord::Base) { self.abstract_class = true }
    self.class.const_set("Base#{object_id}", base)
    size = ActiveRecord.version >= Gem::Version.new("8.1.a") ? :max_connections : :pool
    base.establish_connection(adapter: adapter, **options, size => 1)
    yield base
  ensure
    base&.remove_connection
  end

  def activerecord(adapter, options)
    model(adapter, options) do |base|
      run = ->(*statements) { base.with_connection { |db| statements.each { |sql| db.execute(sql) } } }
      run["DROP TABLE IF EXISTS left_open", "CREATE TABLE left_open (n int)"]
      NB.run do
        NB.async { run["BEGIN", "INSERT INTO left_open VALUES (1)"] }.wait
        NB.async { run["INSERT INTO left_open VALUES (2)"] }.wait
        NB.async { base.with_connection(&:begin_transaction) && run["INSERT INTO left_open VALUES (3)"] }.wait
        NB.async { base.lease_connection.begin_transaction && run["INSERT INTO left_open VALUES (4)"] }.wait
        NB.async { base.transaction { run["INSERT INTO left_open VALUES (5)"] } }.wait
      end
      base.connection_pool.disconnect!
      assert_equal [2, 3, 5], base.with_connection { |db| db.select_values("SELECT n FROM left_open") }
    end
  end
end
# rubocop:enable Layout/LineLength

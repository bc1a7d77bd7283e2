# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/transparency"
require "sequel"
require "pg"
require "mysql2"
require "trilogy"
require "sqlite3"
require "tmpdir"
require_relative "../support/holding_proxy"

# Sequel, whose connections belong to fibers in a loop.
class SequelTest < Transparency
  library "sequel", group: "Databases", gems: %w[sequel pg mysql2], server: -> { Databases.postgresql },
          against: -> { "PostgreSQL, MariaDB" }, cure: "in a loop, connections belong to fibers"

  waits "a query with pg" do
    with_database { |db| assert_equal [1], measure { db.get(Sequel.lit("1 FROM pg_sleep(0.1)")) }.uniq }
  end

  waits "a transaction with pg" do
    with_database do |db|
      values = measure do |i|
        db.transaction do
          db.run("SET LOCAL application_name = 'n#{i}'")
          db.run("SELECT pg_sleep(0.1)")
          db.get(Sequel.lit("current_setting('application_name')"))
        end
      end
      assert_equal (0..49).map { |i| "n#{i}" }, values
    end
  end

  waits "a query with mysql2" do
    with_database(Databases.mariadb.url) { |db| assert_equal [0], measure { db.get(Sequel.lit("SLEEP(0.1)")) }.uniq }
  end

  waits "25 connections for 50 queries" do
    with_database(max_connections: 25) { |db| measure(delay: 0.2) { db.run("SELECT pg_sleep(0.1)") } }
  end

  fails("pool timeout") do
    with_database(max_connections: 1, pool_timeout: 0.1) do |db|
      db.synchronize { elsewhere { db.get(1) } }
    end
  rescue Sequel::PoolTimeout => error
    raise error.class, error.message[/timeout: [\d.]+/] # the rest is how long it was
  end

  fails("server restarted") do
    with_database(max_connections: 1) do |db|
      db.get(1)
      server.restart
      db.get(1)
    end
  ensure
    ready
  end

  # Code of the same thread, or of the same fiber, by the same connection.
  def test_what_runs_within_a_transaction_is_in_it
    with_database(max_connections: 3) do |db|
      db.create_table!(:within_things) { Integer :n }
      db.transaction(rollback: :always) { NB.run { db[:within_things].insert(n: 1) } }
      NB.run do
        db.transaction(rollback: :always) do
          Enumerator.new { |values| values << db[:within_things].insert(n: 2) }.next
          NB.blocking { db[:within_things].insert(n: 3) }
        end
        NB.async { db.transaction(rollback: :always) { Fiber.new { db[:within_things].insert(n: 4) }.resume } }.wait
      end
      assert_empty db[:within_things].all
    ensure
      db.drop_table?(:within_things)
    end
  end

  def test_an_interrupted_transaction_is_rolled_back_and_the_connection_clean_or_gone
    NB.run do
      with_database(max_connections: 2) do |db|
        db.create_table(:things, temp: false) { Integer :n }
        [-> { raise ArgumentError }, -> { db.run("SELECT pg_sleep(5)") }, -> { sleep 5 }].each do |last|
          interrupted(db, last)
          assert_equal 0, db[:things].count
          assert_equal [false], 2.times.map { NB.async { db.synchronize { db.in_transaction? } } }.map(&:value).uniq
        end
      ensure
        db.drop_table?(:things)
      end
    end
  end

  # The timeout closes the connection; nobody else may find it in the pool.
  def test_a_query_that_a_timeout_cuts_leaves_a_working_pool
    NB.run do
      %w[mysql2 trilogy].each do |adapter|
        with_database(Databases.mariadb.url.sub("mysql2", adapter), max_connections: 1) do |db|
          assert_raises(Timeout::Error) { Timeout.timeout(0.05) { db.run("SELECT SLEEP(5)") } }
          assert_equal 7, db.get(7), adapter
          assert_raises(Timeout::Error) { Timeout.timeout(0.05) { db.transaction { db.run("SELECT SLEEP(5)") } } }
          assert_equal 7, db.get(7), adapter
        end
      end
    end
  end

  # It strikes who has yet to read, not who waits in mysql2, which would close the connection.
  def test_a_result_that_a_timeout_leaves_unread_is_lent_to_nobody
    NB.run do
      with_database(Databases.mariadb.url, max_connections: 1) do |db|
        [{ stream: true, cache_rows: false }, { async: true }].each do |options|
          assert_raises(Timeout::Error) do
            NB.timeout(0.05) { db.synchronize { |client| [client.query("SELECT 1 UNION SELECT 2", **options), sleep(5)] } }
          end
          assert_equal 7, db.get(7)
        end
      end
    end
  end

  # pg keeps its connection, with the query still running, and the lock that the query has taken.
  def test_a_query_that_a_timeout_leaves_in_postgresql_is_cancelled
    NB.run do
      with_database(max_connections: 1) do |db|
        NB.timeout(10) do
          assert_raises(Timeout::Error) { NB.timeout(0.1) { db.run("SELECT pg_advisory_lock(9), pg_sleep(60)") } }
          assert_equal 0, db[:pg_locks].where(locktype: "advisory").count
          assert_raises(Timeout::Error) { NB.timeout(0.05) { db.transaction { db.run("SELECT pg_sleep(60)") } } }
          assert_equal [7, false], [db.get(7), db.synchronize { db.in_transaction? }]
        end
      end
    end
  end

  # Whoever has not seen that he has the lock does not release it.
  def test_an_advisory_lock_that_an_interrupted_query_has_taken_is_released
    NB.run do
      with_database(max_connections: 1) do |db|
        lock = proc { assert_raises(Timeout::Error) { NB.timeout(0.1) { db.run("SELECT pg_advisory_lock(9), pg_sleep(0.5)") } } }
        cut = -> { NB.timeout(0.1) { db.transaction { db.run("SELECT pg_advisory_lock(9), pg_sleep(60)") } } }
        [-> { assert_raises(Timeout::Error, &cut) }, -> { db.transaction(&lock) }, -> { db.synchronize(&lock) },
         -> { db.synchronize { [lock.call, db.get(7)] } }].each do |work|
          work.call
          assert_equal 0, db[:pg_locks].where(locktype: "advisory").count
        end
      end
    end
  end

  # It is the same connection.
  def test_the_next_transaction_knows_nothing_of_an_interrupted_one
    NB.run do
      with_database(max_connections: 1) do |db|
        [db.method(:synchronize), ->(&block) { 2.times(&block) }].each do |around|
          around.call do
            assert_raises(Timeout::Error) { NB.timeout(0.05) { db.transaction { db.run("SELECT pg_sleep(60)") } } }
            assert_equal :whole, db.transaction { assert_raises(Sequel::DatabaseError) { db.run("no SQL") } && :whole }
          end
        end
      end
    end
  end

  # The second comes while the pool waits for PostgreSQL to cancel what the first has left.
  def test_a_second_interruption_comes_out_and_its_connection_is_not_lent
    late = Class.new(StandardError)
    NB.run do
      with_database(max_connections: 1) do |db|
        [[late, -> { Timeout.timeout(0.3, late) { cut_and_stuck(db) } }],
         [NB::TaskCancelledError, -> { cancel_later { cut_and_stuck(db) } }]].each do |type, call|
          assert_raises(type, &call)
          assert_equal 7, db.get(7)
          assert_equal 1, db.pool.size
        end
      end
    end
  end

  # To cancel it would fail the transaction, and PostgreSQL answer its COMMIT with ROLLBACK.
  def test_a_transaction_goes_on_where_a_query_was_interrupted
    assert_equal [1], interrupted_things { |db| db.run("SELECT pg_sleep(0.2)") }
    assert_equal([1], interrupted_things { |db| db.transaction(savepoint: true) { db.run("SELECT pg_sleep(60)") } })
  end

  # The SAVEPOINT itself never comes to be, so that nothing can be rolled back to it.
  def test_a_transaction_that_cannot_go_on_raises
    error = assert_raises(Sequel::DatabaseError) do
      interrupted_things do |db|
        NB.timeout(0.02) { db.run("SELECT pg_sleep(60)") }
      rescue Timeout::Error
        db.transaction(savepoint: true) { flunk }
      end
    end
    assert_match(/was interrupted and failed/, error.message)
  end

  # The second interruption strikes before the savepoint is rolled back. The block around it rescues
  # that, and must not commit what the savepoint has left.
  def test_a_transaction_does_not_go_on_where_a_savepoint_could_not_be_rolled_back
    assert_not_committed(/ROLLBACK TO/) { raise ArgumentError }
  end

  def test_a_transaction_does_not_go_on_where_the_release_of_a_savepoint_was_interrupted
    assert_not_committed(/RELEASE/)
  end

  # Who holds the connection may have begun a transaction by SQL of his own.
  def test_an_error_that_is_rescued_rolls_nothing_back
    %w[postgres mysql2 trilogy].each do |adapter|
      url = adapter == "postgres" ? server.url : Databases.mariadb.url.sub("mysql2", adapter)
      told = NB.run { with_database(url, max_connections: 1) { |db| insert_twice(db) } }
      assert_equal [1], told, adapter
    end
  end

  def test_neither_callback_runs_where_nobody_knows_whether_it_committed
    proxy = HoldingProxy.new(server.port, 0.3)
    told = []
    NB.run do
      with_database("#{server.url.sub(%r{:\d+/}, ":#{proxy.port}/")}?sslmode=disable", max_connections: 1) do |db|
        proxy.arm(/COMMIT/, :answer)
        task = NB.async { telling(db, told) { db.run("SELECT 1") } }
        assert proxy.held(10)
        task.cancel.wait
        assert_equal [[], false], [told, db.synchronize { db.in_transaction? }]
      end
    end
  ensure
    proxy.close
  end

  def test_after_rollback_runs_where_the_server_refuses_to_commit
    told = []
    NB.run do
      with_database(max_connections: 1) do |db|
        db.run("CREATE TEMP TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        assert_raises(Sequel::UniqueConstraintViolation) do
          telling(db, told) { db.run("INSERT INTO late VALUES (1), (1)") }
        end
      end
    end
    assert_equal [:rollback], told
  end

  # SQLite waits for a reader with COMMIT, and knows that it has not committed.
  def test_a_commit_of_sqlite_that_was_interrupted_leaves_no_transaction
    told = []
    Dir.mktmpdir do |folder|
      NB.run do
        with_database("sqlite://#{folder}/db", max_connections: 1, timeout: 30_000) do |db|
          db.run("CREATE TABLE things (n int)")
          reader = SQLite3::Database.new("#{folder}/db")
          reading = reader.prepare("SELECT * FROM sqlite_schema").tap(&:step)
          task = NB.async { telling(db, told) { db[:things].insert(n: 1) } }
          task.cancel.wait # it stops at COMMIT
          refute db.synchronize(&:transaction_active?)
          reading.close
          assert_empty db[:things].select_map(:n)
        ensure
          reader.close
        end
      end
    end
    assert_equal [:rollback], told
  end

  # Sequel's pool for Ruby 3.1 sleeps with its lock; the next one who gives back waits for that.
  def test_a_cancel_while_a_connection_goes_back_to_the_pool_keeps_it_there
    NB.run do
      with_database(max_connections: 2) do |db|
        4.times do |turns|
          gate = Queue.new
          users = Array.new(2) { NB.async { db.synchronize { gate.pop } } }
          2.times { gate.push(true) }
          turns.times { sleep 0 }
          users.last.cancel
          users.each(&:wait)
          assert_empty db.pool.instance_variable_get(:@allocated), "cancelled after #{turns} turns"
        end
      end
    end
  end

  def test_without_a_loop_connections_belong_to_threads
    with_database(max_connections: 2) do |db|
      db.transaction do
        inner = Fiber.new { db.in_transaction? }.resume
        assert inner
      end
    end
  end

  private

  def assert_not_committed(pattern, &last)
    late = Class.new(StandardError)
    NB.run do
      with_database(max_connections: 1) do |db|
        db.create_table!(:things) { Integer :n }
        db.define_singleton_method(:log_connection_execute) do |connection, sql|
          sql.match?(pattern) ? NB.timeout(0.01, late) { sleep } : super(connection, sql)
        end
        assert_raises(Sequel::DatabaseError) { insert_beside_savepoint(db, late, last) }
        assert_empty db[:things].select_map(:n)
      ensure
        db.drop_table?(:things)
      end
    end
  end

  def insert_beside_savepoint(db, late, last)
    db.transaction do
      db[:things].insert(n: 1)
      assert_raises(late, ArgumentError) do
        db.transaction(savepoint: true) do
          db[:things].insert(n: 2)
          last&.call
        end
      end
      db[:things].insert(n: 3)
    end
  end

  def insert_twice(db)
    db.create_table!(:things) { Integer :n, unique: true }
    db.synchronize do
      ["BEGIN", "INSERT INTO things VALUES (1)", "SAVEPOINT one"].each { |sql| db.run(sql) }
      assert_raises(Sequel::UniqueConstraintViolation) { db.run("INSERT INTO things VALUES (1)") }
      ["ROLLBACK TO SAVEPOINT one", "COMMIT"].each { |sql| db.run(sql) }
    end
    db[:things].select_map(:n)
  ensure
    db.drop_table?(:things)
  end

  def cut_and_stuck(db)
    db.synchronize do |connection|
      connection.define_singleton_method(:discard_results) { sleep }
      NB.timeout(0.05) { connection.exec("SELECT pg_sleep(60)") }
    end
  end

  def cancel_later(&block)
    task = NB.async(&block)
    sleep 0.3
    task.cancel
    task.value
  end

  def telling(db, told)
    db.transaction do
      db.after_commit { told << :commit }
      db.after_rollback { told << :rollback }
      yield
    end
  end

  # All connections are open when the block begins.
  def with_database(url = "#{server.url}?sslmode=disable", max_connections: 50, **options)
    db = Sequel.connect(url, max_connections: max_connections, pool_timeout: 10,
                             keep_reference: false, preconnect: true, **options)
    yield db
  ensure
    db&.disconnect
  end

  def ready
    with_database(max_connections: 1) { |db| db.get(1) }
  rescue Sequel::DatabaseConnectionError
    sleep 0.02
    retry
  end

  def interrupted(db, last)
    Timeout.timeout(0.2) do
      db.transaction do
        db[:things].insert(n: 1)
        last.call
      end
    end
  rescue ArgumentError, Timeout::Error
    nil
  end

  # @return [Array<Integer>] what is there when a transaction has rescued the timeout of the block
  def interrupted_things
    NB.run do
      with_database(max_connections: 1) do |db|
        db.create_table!(:things) { Integer :n }
        db.transaction do
          db[:things].insert(n: 1)
          assert_raises(Timeout::Error, Sequel::DatabaseError) { NB.timeout(0.05) { yield db } }
        end
        db[:things].select_map(:n)
      ensure
        db.drop_table?(:things)
      end
    end
  end

  # In another fiber of the loop, or another thread.
  def elsewhere(&block)
    return NB.async(&block).value if NB.running?

    Thread.new(&block).tap { |thread| thread.report_on_exception = false }.value
  end
end
# rubocop:enable Layout/LineLength

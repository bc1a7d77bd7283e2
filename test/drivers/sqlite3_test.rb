# frozen_string_literal: true

require_relative "../support/transparency"
require "sqlite3"

# sqlite3 holds Ruby's lock for as long as a statement runs: what it computes stops the whole
# process, loop or threads. Waiting for another's lock is another thing: `busy_handler_timeout=`
# waits in Ruby (sqlite3 2.0), `busy_timeout=` in C.
class SQLite3Test < Transparency
  library "sqlite3", group: "Databases", gems: %w[sqlite3],
          against: -> { "SQLite #{SQLite3::SQLITE_VERSION}" },
          cure: "busy_timeout= waits in the loop"

  waits "a write while another connection holds the lock, busy_timeout=" do
    in_files do |files|
      measure(count: 20) do |i|
        locked_for(0.1, files[i]) { |db| db.execute("INSERT INTO t VALUES (1)") }
      end
    end
  end

  blocks "a long statement", why: "it holds the GVL",
         instead: "short statements, NB.in_process { }, or a database server" do
    in_files(3) do |files|
      measure(count: 3, delay: 0) { |i| open(files[i]) { |db| db.execute(<<~SQL) } }
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000)
        SELECT count(*) FROM c
      SQL
    end
  end

  fails "the lock is held for longer than busy_timeout" do
    in_files(1) do |files|
      open(files.first) do |holder|
        holder.execute("BEGIN EXCLUSIVE")
        open(files.first, 50) { |db| db.execute("INSERT INTO t VALUES (1)") }
      end
    end
  end

  def test_a_timeout_that_is_no_number_is_told_as_ever
    SQLite3::Database.new(":memory:") { |db| assert_raises(TypeError) { db.busy_timeout = "usa" } }
  end

  def test_busy_timeout_returns_the_database_as_ever
    SQLite3::Database.new(":memory:") do |db|
      assert_equal [db, db], [db.busy_timeout(50), db.busy_timeout(0)]
    end
  end

  # Each waits for the lock for a tenth of the time on average, if they take turns.
  def test_statements_may_hold_any_bytes_in_any_encoding
    SQLite3::Database.new(":memory:") do |db|
      both = -> { [db.execute("SELECT '\xFF'"), db.execute("SELECT 1".encode("UTF-16LE"))] }
      plain = both.call

      assert_equal [[["\xFF"]], [[1]]], plain
      assert_equal plain, NB.run(&both)
    end
  end

  def test_nobody_who_writes_keeps_the_lock_from_the_others
    busy = in_files(1) do |files|
      NB.run do
        NB.map(1..8, concurrency: 8) do
          open(files.first, 1000) { |db| 25.times.count { !write(db) } }
        end
      end
    end
    assert_equal [0] * 8, busy
  end

  private

  # @return [Boolean] false: the lock was not to be had in time
  def write(database)
    database.execute("BEGIN")
    database.execute("INSERT INTO t VALUES (1)")
    sleep 0.01
    database.execute("COMMIT")
  rescue SQLite3::BusyException
    database.execute("ROLLBACK")
    false
  end

  # In memory as far as can be: a disk's own waits are not measured here.
  def in_files(count = 20)
    Dir.mktmpdir("nb", ("/dev/shm" if File.directory?("/dev/shm"))) do |folder|
      files = Array.new(count) { |i| "#{folder}/#{i}.db" }
      files.each { |file| open(file) { |db| db.execute("CREATE TABLE t (n)") } }
      yield files
    end
  end

  # Another connection holds the lock for so long, from now on.
  def locked_for(seconds, file)
    holder = SQLite3::Database.new(file)
    holder.execute("BEGIN EXCLUSIVE")
    releasing = NB.async { sleep(seconds) && holder.execute("COMMIT") }
    open(file) { |db| yield db }
    releasing.wait
  ensure
    holder&.close
  end

  def open(file, timeout = 5000)
    db = SQLite3::Database.new(file)
    db.busy_timeout = timeout
    yield db
  ensure
    db&.close
  end
end

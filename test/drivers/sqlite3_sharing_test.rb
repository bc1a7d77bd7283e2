# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "sqlite3"
require "tmpdir"
require_relative "../support/subprocess"

# One connection that several fibers or threads use while it waits for the lock of its database.
# With `busy_timeout=`, sqlite3 alone lets nobody else run meanwhile.
class SQLite3SharingTest < Minitest::Test
  # Its statement would be part of the other one's transaction, and rolled back with it.
  def test_what_one_fiber_has_written_is_kept_when_another_is_cancelled
    locked do |db, holder|
      written = []
      NB.run do
        tasks = [1, 2].map do |n|
          NB.async do
            db.execute("INSERT INTO t VALUES (#{n})")
            written << [n]
            tasks[n - 2].cancel
          end
        end
        sleep 0.1
        holder.execute("COMMIT")
        tasks.each(&:wait)
      end
      assert_equal 1, written.size
      assert_equal written, holder.execute("SELECT n FROM t")
    end
  end

  # Each way in which a statement begins.
  BEGINS = {
    "execute" => ->(db, n) { db.execute("INSERT INTO t VALUES (?)", [n]) },
    "a_prepared_statement" => ->(_, n, prepared) { prepared.execute(n) },
    "a_batch" => ->(db, n) { db.execute_batch2("INSERT INTO t VALUES (#{n})") }
  }.freeze

  BEGINS.each do |name, write|
    define_method("test_#{name}_waits_for_the_statement_before_it") do
      locked do |db, holder|
        prepared = db.prepare("INSERT INTO t VALUES (?)")
        order = []
        NB.run do
          writing = [1, 2, 3].map do |n|
            NB.async { write.call(*[db, n, prepared].first(write.arity)) && order << n }
          end
          NB.async { sleep(0.1) && holder.execute("COMMIT") }
          sleep(0.05)
          assert_empty order # and this fiber runs
          writing.each(&:wait)
        end
        prepared.close
        assert_equal [1, 2, 3], order.sort
        assert_equal [1, 2, 3], holder.execute("SELECT n FROM t ORDER BY n").flatten
      end
    end
  end

  # SQLite would go on with memory that has been freed, or for a statement that has begun anew.
  %i[close reset! step].each do |name|
    define_method("test_#{name}_by_a_fiber_waits_for_the_statement_of_another") do
      locked do |db, holder|
        prepared, other = [1, 2].map { |n| db.prepare("INSERT INTO t VALUES (#{n})") }
        order = []
        NB.run do
          NB.async { prepared.execute && order << :written }
          NB.async do
            (name == :step ? other : prepared).public_send(name)
            order << name
          end
          sleep 0.05
          holder.execute("COMMIT")
        end
        [prepared, other].each { |one| one.close unless one.closed? }
        assert_equal [:written, name], order
        assert_equal name == :step ? [1, 2] : [1], holder.execute("SELECT n FROM t").flatten
      end
    end
  end

  # From sqlite3 2.10.2 on, it would stay begun, and SQLite would commit nothing from then on.
  def test_a_prepared_statement_that_a_timeout_has_ended_keeps_nothing_from_being_committed
    locked do |db, holder|
      prepared = db.prepare("INSERT INTO t VALUES (1)")
      NB.run { assert_raises(Timeout::Error) { Timeout.timeout(0.05) { prepared.execute } } }
      holder.execute("COMMIT")
      db.execute("INSERT INTO t VALUES (2)")
      db.transaction { db.execute("INSERT INTO t VALUES (3)") }
      assert_equal [2, 3], holder.execute("SELECT n FROM t").flatten
      prepared.execute
      prepared.close
      assert_equal [2, 3, 1], holder.execute("SELECT n FROM t").flatten
    end
  end

  # Whoever got the connection from another thread may be in a loop.
  def test_a_connection_that_another_thread_has_used_waits_in_the_loop
    locked do |db, holder|
      Thread.new { db.execute("SELECT 1") }.join
      db.execute("SELECT 1")
      ticks = 0
      NB.run do
        writing = NB.async { db.execute("INSERT INTO t VALUES (1)") }
        10.times { sleep(0.01) && ticks += 1 }
        holder.execute("COMMIT")
        writing.wait
      end
      assert_equal [10, [[1]]], [ticks, holder.execute("SELECT n FROM t")]
    end
  end

  # In a process of its own, because nothing can end a thread that waits for SQLite's mutex with
  # Ruby's lock.
  def test_threads_without_a_loop
    result = Subprocess.ruby(<<~'RUBY')
      require "sqlite3"
      require "tmpdir"
      SQLite3::ForkSafety.suppress_warnings! if defined?(SQLite3::ForkSafety)
      Dir.mktmpdir do |folder|
        db = SQLite3::Database.new("#{folder}/x.db")
        db.busy_timeout = 20_000
        db.execute("CREATE TABLE t (n)")
        reading, told = IO.pipe
        pid = fork do
          holder = SQLite3::Database.new("#{folder}/x.db")
          holder.execute("BEGIN IMMEDIATE")
          told.close
          sleep 0.3
          holder.execute("COMMIT")
          exit!(true)
        end
        told.close
        reading.read
        [1, 2, 3].map { |n| Thread.new { db.execute("INSERT INTO t VALUES (#{n})") } }.each(&:join)
        Process.wait(pid)
        print db.execute("SELECT n FROM t ORDER BY n").inspect
      end
    RUBY
    assert_equal ["[[1], [2], [3]]", false], [result.out, result.hung], result.err
  end

  private

  # A connection, and another one that holds the lock.
  def locked
    Dir.mktmpdir("nb") do |folder|
      holder, db = Array.new(2) { SQLite3::Database.new("#{folder}/x.db") }
      holder.execute("CREATE TABLE t (n)")
      holder.execute("BEGIN IMMEDIATE")
      db.busy_timeout = 20_000
      yield db, holder
    ensure
      [holder, db].compact.each(&:close)
    end
  end
end

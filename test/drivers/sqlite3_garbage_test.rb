# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# Statements with rows left that nobody closes: SQLite ends them when they are freed, which may
# commit and wait for a lock. In processes of their own, which may hang or crash.
class SQLite3GarbageTest < Minitest::Test
  # `holder` and `db` are connections to one database; `holder` reads, so nothing is committed.
  PREPARE = <<~'RUBY'
    require "sqlite3"
    require "tmpdir"
    SQLite3::ForkSafety.suppress_warnings! if defined?(SQLite3::ForkSafety)
    folder = Dir.mktmpdir
    first = Process.pid
    at_exit { FileUtils.rm_rf(folder) if Process.pid == first }
    path = "#{folder}/x.db"
    holder, db = Array.new(2) { SQLite3::Database.new(path) }
    holder.execute("CREATE TABLE t (n)")
    holder.execute("INSERT INTO t VALUES (0), (0), (0)")
    holder.execute("BEGIN")
    holder.execute("SELECT n FROM t")
    [holder, db].each { |one| one.busy_timeout = 50_000 }

    # Nothing of a thread that has ended refers to them.
    def leave(connection, sql)
      Thread.new { 100.times { connection.prepare(sql).step } && nil }.join
    end
    def rows(connection) = connection.execute("SELECT count(*) FROM t").flatten
    def collect_until
      until yield
        GC.start
        sleep 0.01
      end
    end
    WRITE = "INSERT INTO t VALUES (1) RETURNING n"
  RUBY

  def assert_prints(expected, code)
    result = Subprocess.ruby("#{PREPARE}\n#{code}")
    assert_equal [expected, "", false], [result.out, result.err[0, 1000], result.hung]
  end

  %w[COMMIT RELEASE\ a].zip(%w[BEGIN SAVEPOINT\ a]).each do |commit, begins|
    { "a_fiber" => "GC.start", "a_thread" => "Thread.new { GC.start }.join" }.each do |who, free|
      define_method("test_#{who}_may_free_a_statement_while_a_batch_waits_in_#{commit[/\w+/]}") do
        assert_prints "[4]\n", <<~RUBY
          NB.run do
            waits = false
            db.busy_handler { waits = true && sleep(0.001) }
            writing = NB.async do
              db.execute(#{begins.inspect})
              db.execute("INSERT INTO t VALUES (1)")
              leave(db, "SELECT n FROM t")
              db.execute_batch2(#{commit.inspect})
            end
            sleep 0.001 until waits
            3.times { #{free} }
            holder.execute("COMMIT")
            writing.wait
          end
          p rows(holder)
        RUBY
      end
    end
  end

  { "a_loop" => "NB.run", "no_loop" => "1.times" }.each do |where, run|
    define_method("test_a_write_that_nobody_closes_waits_for_its_lock_in_#{where}") do
      assert_prints "[103]\n", <<~RUBY
        #{run} do
          waits = false
          db.busy_handler { waits = true && sleep(0.001) }
          leave(db, WRITE)
          collect_until { waits }
          holder.execute("COMMIT")
          collect_until { rows(holder) != [3] }
          p rows(holder)
        end
      RUBY
    end
  end

  # They are found together.
  def test_a_write_that_nobody_closes_waits_for_a_read_that_nobody_closes
    assert_prints "[103]\n", <<~RUBY
      holder.execute("COMMIT")
      other = SQLite3::Database.new(path)
      other.busy_timeout = 50_000
      GC.disable
      leave(other, "SELECT n FROM t")
      leave(db, WRITE)
      GC.enable
      collect_until { rows(holder) != [3] }
      p rows(holder)
    RUBY
  end

  def test_a_connection_may_be_collected_with_such_a_write
    assert_prints "true\n", <<~RUBY
      NB.run do
        Thread.new do
          other = SQLite3::Database.new(path)
          other.busy_handler { sleep 0.001 }
          100.times { other.prepare(WRITE).step }
        end.join
        written = false
        NB.async { db.execute("INSERT INTO t VALUES (2)") && written = true } # waits for its lock
        30.times { GC.start && sleep(0.001) }
        holder.execute("COMMIT")
        collect_until { written }
      end
      p [4, 104].include?(rows(holder)[0]) # its handler has gone, so it may give up
    RUBY
  end

  def test_a_child_does_not_end_its_parents_statement
    assert_prints "[true, [103]]\n", <<~RUBY
      holder.execute("COMMIT")
      statements = Array.new(100) { db.prepare(WRITE).tap(&:step) }
      Process.wait(fork { statements = nil; 3.times { GC.start } })
      statements.each(&:close)
      p [$?.success?, rows(holder)]
    RUBY
  end

  # Until Ruby 3.2, compaction takes one of 30 keys that share a value of a WeakMap for the value.
  def test_a_connection_for_whose_lock_many_fibers_have_waited_survives_compaction
    skip "this Ruby does not compact" unless GC.respond_to?(:compact)
    assert_prints "67\n", <<~RUBY
      holder.execute("COMMIT")
      NB.run do
        fibers = Array.new(64) do
          Fiber.new do
            holder.execute("BEGIN IMMEDIATE")
            freeing = NB.async { sleep 0.002 and holder.execute("COMMIT") }
            db.execute("INSERT INTO t VALUES (1)")
            freeing.wait
          end
        end
        fibers.each { |fiber| fiber.resume && GC.compact }
      end
      puts rows(holder)
    RUBY
  end

  # A reader in another process lets go once it is waited for, and looks when that has ended.
  def test_a_write_that_is_alive_at_the_exit_waits_for_its_lock
    assert_prints "[4]\n", <<~'RUBY'
      [holder, db].each(&:close)
      path = "#{folder = Dir.mktmpdir}/x.db" # the first folder is removed too early
      (asks, asked), (begins, begun) = Array.new(2) { IO.pipe }
      fork do
        [begins, asked].each(&:close)
        holder = SQLite3::Database.new(path)
        holder.execute("CREATE TABLE t (n)")
        holder.execute("INSERT INTO t VALUES (0), (0), (0)")
        holder.execute("BEGIN")
        holder.execute("SELECT n FROM t")
        begun.close
        asks.readpartial(1)
        holder.execute("COMMIT")
        asks.read
        p rows(holder)
        FileUtils.rm_rf(folder)
      end
      [begun, asks].each(&:close)
      begins.read
      db = SQLite3::Database.new(path)
      db.busy_handler { asked.write("x") && sleep(0.001) }
      $statement = db.prepare(WRITE).tap(&:step)
    RUBY
  end
end

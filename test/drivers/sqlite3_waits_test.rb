# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# What happens to a connection, in C, while its statement waits for the lock of the database: in
# processes of their own, which may hang or crash.
class SQLite3WaitsTest < Minitest::Test
  # `holder` and `db` are connections to one database; `waiting` waits until a fiber does so.
  PREPARE = <<~'RUBY'
    require "sqlite3"
    require "tmpdir"
    SQLite3::ForkSafety.suppress_warnings! if defined?(SQLite3::ForkSafety)
    $stdout.sync = true
    folder = Dir.mktmpdir
    first = Process.pid
    at_exit { FileUtils.rm_rf(folder) if Process.pid == first }
    holder, db = Array.new(2) { SQLite3::Database.new("#{folder}/x.db") }
    holder.execute("CREATE TABLE t (n)")
    holder.execute("INSERT INTO t VALUES (0), (0), (0)")

    def reads(connection)
      connection.execute("BEGIN")
      connection.execute("SELECT n FROM t")
    end
    # The block runs while these tasks wait for the holder's lock.
    def meanwhile(holder, *tasks)
      sleep 0.05
      yield
      holder.execute("COMMIT")
      tasks.each(&:wait)
    end
    def rows(connection) = connection.execute("SELECT count(*) FROM t").flatten
    # Leaves statements to the garbage collector; with a row read, they are in the middle.
    def leave(connection, step)
      100.times { connection.prepare("SELECT n FROM t").then { |one| one.step if step } }
    end
  RUBY

  def script(code, **options) = Subprocess.ruby("#{PREPARE}\n#{code}", **options)

  def assert_prints(expected, code)
    result = script(code)
    assert_equal [expected, "", false], [result.out, result.err[0, 1000], result.hung]
  end

  %i[busy_timeout busy_handler_timeout].each do |handler|
    define_method("test_another_thread_may_free_a_statement_meanwhile_by_#{handler}") do
      assert_prints "[4]\n", <<~RUBY
        db.#{handler} = 20_000
        Thread.new { leave(db, false) }.join
        holder.execute("BEGIN IMMEDIATE")
        NB.run do
          writing = NB.async { db.execute("INSERT INTO t VALUES (1)") }
          meanwhile(holder, writing) { Thread.new { GC.start }.join }
        end
        p rows(holder)
      RUBY
    end
  end

  # SQLite would commit inside the garbage collector, and call the busy handler there.
  { "a_fiber" => ["GC.start", '"COMMIT"'],
    "a_thread" => ["Thread.new { GC.start }.join", '"COMMIT"'],
    "a_fiber_behind_what_sqlite_skips" => ["GC.start", '"; \uFEFF/* ; */-- x\n; commit"'],
    "a_fiber_by_utf_16" => ["GC.start", '"\uFEFFEND".encode("UTF-16LE")'] }
    .each do |name, (free, commit)|
    define_method("test_#{name}_may_free_a_statement_in_the_middle_while_a_commit_waits") do
      assert_prints "[4]\n", <<~RUBY
        db.busy_timeout = 20_000
        reads(holder)
        NB.run do
          writing = NB.async do
            db.execute("BEGIN")
            db.execute("INSERT INTO t VALUES (1)")
            Fiber.new { leave(db, true) }.resume
            db.execute(#{commit})
          end
          meanwhile(holder, writing) { #{free} }
        end
        p rows(holder)
      RUBY
    end
  end

  def test_another_thread_may_call_the_connection_meanwhile
    assert_prints "[\"not an error\", 1, nil]\n[4]\n", <<~RUBY
      db.busy_timeout = 20_000
      prepared = db.prepare("SELECT ?")
      holder.execute("BEGIN IMMEDIATE")
      NB.run do
        writing = NB.async { db.execute("INSERT INTO t VALUES (1)") }
        meanwhile(holder, writing) do
          calls = Thread.new do
            prepared.bind_param(1, 2)
            [db.errmsg, prepared.bind_parameter_count, db.create_function("f", 0) { nil } && nil]
          end
          p calls.value
        end
      end
      p rows(holder)
    RUBY
  end

  def test_others_wait_for_a_commit_that_waits
    assert_prints "[:committed, :written]\n[5]\n", <<~RUBY
      db.busy_timeout = 20_000
      reads(holder)
      order = []
      NB.run do
        tasks = [
          NB.async do
            db.transaction { db.execute("INSERT INTO t VALUES (1)") }
            order << :committed
          end,
          NB.async { db.execute("INSERT INTO t VALUES (2)") && order << :written }
        ]
        meanwhile(holder, *tasks) { order << :early unless order.empty? }
      end
      p order, rows(holder)
    RUBY
  end

  # Each is the last one who has waited on the other's connection.
  def test_two_who_commit_do_not_wait_for_each_other
    assert_prints "[2]\n", <<~RUBY
      databases = [db, SQLite3::Database.new(folder + "/y.db")]
      databases.each { |one| one.busy_timeout = 20_000 }
      databases[1].execute("CREATE TABLE t (n)")
      locks = [holder, SQLite3::Database.new(folder + "/y.db")]
      write = ->(one) { one.execute("BEGIN IMMEDIATE") && one.execute("COMMIT") }
      NB.run do
        locks.each { |one| one.execute("BEGIN IMMEDIATE") }
        NB.async { sleep(0.05) && locks.each { |one| one.execute("COMMIT") } }
        tasks = [0, 1].map do |i|
          NB.async do
            write.call(databases[i])
            sleep 0.05
            write.call(databases[1 - i])
          end
        end
        p [tasks.each(&:wait).size]
      end
    RUBY
  end

  # What is in its way, and what waits.
  WAITS = {
    "a write" => ['holder.execute("BEGIN IMMEDIATE")', 'db.execute("INSERT INTO t VALUES (1)")'],
    "a write's own commit" =>
      ["reads(holder)", 'db.execute("INSERT INTO t VALUES (zeroblob(10000))")'],
    "RETURNING" => ["reads(holder)", 'db.execute("INSERT INTO t VALUES (1) RETURNING n")'],
    "COMMIT" => ["reads(holder)", 'db.transaction { db.execute("INSERT INTO t VALUES (1)") }'],
    "BEGIN EXCLUSIVE" =>
      ["reads(holder)", 'db.transaction(:exclusive) { db.execute("INSERT INTO t VALUES (1)") }'],
    "a batch" =>
      ['holder.execute("BEGIN IMMEDIATE")', 'db.execute_batch2("INSERT INTO t VALUES (1)")']
  }.freeze

  { "fiber" => "NB.async", "thread" => "Thread.new" }.each do |kind, start|
    WAITS.each do |name, (hold, work)|
      define_method("test_a_fork_while_a_#{kind}_waits_for_#{name}") do
        assert_prints "child\ntrue\n[4, \"ok\"]\n", <<~RUBY
          NB::Fork.send(:remove_const, :PATIENCE)
          NB::Fork::PATIENCE = 1000 # seconds: a fork that waited would hang
          db.busy_timeout = 20_000
          #{hold}
          NB.run do
            writing = #{start} { #{work} }
            sleep 0.1
            pid = fork { 3.times { GC.start } && puts("child") }
            Process.wait(pid)
            p $?.success?
            holder.execute("COMMIT")
            writing.is_a?(Thread) ? writing.join : writing.wait
          end
          p rows(holder) + holder.execute("PRAGMA integrity_check").flatten
        RUBY
      end
    end
  end

  # Each with the busy handler's own counts, and what a trace is told.
  AS_EVER = <<~'RUBY'
    run = lambda do |sql, before = [], &handler|
      reads(holder)
      counts = []
      told = []
      db.busy_handler do |count|
        counts << count
        holder.execute("COMMIT") if count == 3 && !handler
        handler ? handler.call(count) : true
      end
      before.each { |one| db.execute(one) }
      db.trace { |one| told << one }
      outcome = begin
        db.execute(sql)
      rescue StandardError
        [$!.class, $!.message]
      end
      db.trace(nil)
      p [outcome, counts, told, db.transaction_active?]
      [holder, db].each { |one| one.execute("ROLLBACK") if one.transaction_active? }
      p rows(holder)
    end
    write = ["BEGIN", "INSERT INTO t VALUES (1)"]
    run.call("COMMIT", write)
    run.call("-- a\n /* b */ commit", write)
    run.call("END TRANSACTION", write)
    run.call("RELEASE a", ["SAVEPOINT a", "INSERT INTO t VALUES (1)"])
    run.call("INSERT INTO t VALUES (1)")
    run.call("INSERT INTO t VALUES (1) RETURNING n")
    run.call("BEGIN EXCLUSIVE")
    run.call("COMMIT", write) { |count| count < 5 }
    run.call("COMMIT", write) { |count| count < 3 ? nil : false }

    # SQLite does not ask here.
    db.busy_handler { raise "asked" }
    db.execute("BEGIN")
    writing = db.prepare("INSERT INTO t VALUES (3), (4) RETURNING n")
    writing.step
    p (db.execute("COMMIT") rescue [$!.class, $!.message])
    writing.close
  RUBY

  def test_waits_are_as_without_neverblock
    plain = script(AS_EVER, loaded: false)
    assert_equal ["", 19], [plain.err, plain.out.lines.size]
    assert_prints plain.out, AS_EVER
    assert_prints plain.out, "NB.run do\n#{AS_EVER}\nend"
  end

  def test_a_trace_may_wait_for_another_database_while_a_transaction_begins
    assert_prints "[\"BEGIN IMMEDIATE\", \"COMMIT\"]\n", <<~RUBY
      first, log = Array.new(2) { SQLite3::Database.new(folder + "/log.db") }
      first.execute("CREATE TABLE t (n)")
      [db, log].each { |one| one.busy_timeout = 20_000 }
      db.trace { |sql| log.execute("INSERT INTO t VALUES (?)", [sql]) }
      NB.run do
        first.execute("BEGIN IMMEDIATE")
        NB.async { sleep(0.05) && first.execute("COMMIT") }
        reads(holder)
        db.execute("BEGIN IMMEDIATE")
        NB.async { sleep(0.05) && holder.execute("COMMIT") }
        db.execute("COMMIT")
      end
      p log.execute("SELECT n FROM t WHERE n NOT LIKE 'PRAGMA%'").flatten # of sqlite3 1
    RUBY
  end

  # Methods that do not tell whether the lock came free, and what keeps it.
  ENDS = { "reset!" => ["reads(holder)", "writing.reset!"],
           "close" => ["reads(holder)", "writing.close"],
           "Backup#step" => ['holder.execute("BEGIN EXCLUSIVE")', "backup.step(-1)"] }.freeze

  ENDS.each do |name, (hold, call)|
    define_method("test_a_timeout_in_#{name}_is_raised_there_and_nowhere_else") do
      assert_prints "Timeout::Error\nSQLite3::BusyException\n", <<~RUBY
        NB.run do
          db.busy_timeout = 300
          backup = SQLite3::Backup.new(db, "main", SQLite3::Database.new(":memory:"), "main")
          writing = db.prepare("INSERT INTO t VALUES (1) RETURNING n")
          #{hold}
          writing.step if #{call.start_with?("writing")}
          NB.timeout(0.05) { #{call} } rescue p $!.class
          holder.execute("COMMIT")
          backup.finish
          writing.close unless writing.closed?
          holder.execute("BEGIN IMMEDIATE")
          db.execute("INSERT INTO t VALUES (1)") rescue p $!.class
        end
      RUBY
    end
  end

  # Whoever waits at the end of a write keeps new readers out, and the write is not done again.
  WRITES = { "a_write" => ["INSERT INTO t VALUES (f())"],
             "a_commit" => ["BEGIN", "INSERT INTO t VALUES (f())", "COMMIT"] }.freeze

  WRITES.each do |name, write|
    define_method("test_new_readers_do_not_keep_#{name}_waiting") do
      assert_prints "[1, 1]\n[4]\n", <<~RUBY
        reader, another = holder, SQLite3::Database.new(folder + "/x.db")
        reads(reader)
        asked = done = 0
        db.create_function("f", 0) { |function| function.result = (done += 1) }
        db.busy_handler do
          begin
            reads(another)
          rescue SQLite3::BusyException
            another.execute("ROLLBACK")
          end
          reader.execute("COMMIT")
          reader, another = another, reader
          (asked += 1) < 20
        end
        NB.run { #{write}.each { |sql| db.execute(sql) } }
        p [asked, done], rows(db)
      RUBY
    end
  end
end

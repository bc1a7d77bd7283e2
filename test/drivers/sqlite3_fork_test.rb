# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../support/subprocess"

# A fork while a statement waits for the lock of a database, of a connection that has a mutex:
# SQLite keeps it locked meanwhile, on which the child would hang without end.
# (SQLite3WaitsTest: connections without.)
class SQLite3ForkTest < Minitest::Test
  # `holder` has the lock, `waiting` is a connection, `wait_for` a thread that waits for the lock.
  PREPARE = <<~'RUBY'
    require "sqlite3"
    SQLite3::ForkSafety.suppress_warnings!
    $stdout.sync = true

    def connect(handler)
      open = SQLite3::Constants::Open
      db = SQLite3::Database.new(FILE, flags: open::READWRITE | open::CREATE | open::FULLMUTEX)
      case handler
      when :busy_handler then db.busy_handler { sleep 0.001 || true }
      else db.public_send(:"#{handler}=", 20_000)
      end
      db
    end

    def asleep(thread)
      Thread.pass until thread.status == "sleep"
      thread
    end

    holder = SQLite3::Database.new(FILE)
    holder.execute("CREATE TABLE t (n)")
    holder.execute("BEGIN IMMEDIATE")
  RUBY

  HANDLERS = %i[busy_timeout busy_handler_timeout busy_handler].freeze

  def script(code)
    Dir.mktmpdir do |folder|
      Subprocess.ruby("FILE = #{"#{folder}/x.db".dump}\n#{PREPARE}\n#{code}")
    end
  end

  # The lock comes free by itself.
  HANDLERS.each do |handler|
    define_method("test_a_fork_waits_for_a_thread_that_waits_by_#{handler}") do
      result = script(<<~RUBY)
        db = connect(:#{handler})
        thread = asleep(Thread.new { db.execute("INSERT INTO t VALUES (1)") })
        Thread.new { sleep(0.3) && holder.execute("COMMIT") }
        Process.wait(fork { puts "child" })
        thread.join
        p $?.success?, holder.execute("SELECT * FROM t")
      RUBY
      assert_equal ["child\ntrue\n[[1]]\n", "", false], [result.out, result.err, result.hung]
    end
  end

  # Who forks has the lock.
  (HANDLERS - [:busy_handler]).each do |handler|
    define_method("test_who_begins_makes_way_for_a_fork_by_#{handler}") do
      result = script(<<~RUBY)
        db = connect(:#{handler})
        thread = asleep(Thread.new do
          db.transaction(:immediate) { db.execute("INSERT INTO t VALUES (1)") }
        end)
        Process.wait(fork { puts "child" })
        p $?.success?, thread.alive?
        asleep(thread)
        holder.execute("COMMIT")
        thread.join
        p holder.execute("SELECT * FROM t")
      RUBY
      assert_equal ["child\ntrue\ntrue\n[[1]]\n", "", false], [result.out, result.err, result.hung]
    end
  end

  def test_who_begins_makes_way_for_a_fork_with_comments_between_the_words
    result = script(<<~'RUBY')
      db = connect(:busy_timeout)
      thread = asleep(Thread.new { db.execute("BEGIN/**/ -- a\n IMMEDIATE") })
      Process.wait(fork { puts "child" })
      holder.execute("COMMIT")
      thread.join
    RUBY
    assert_equal ["child\n", "", false], [result.out, result.err, result.hung]
  end

  # SQLite has called the handler; Ruby switches threads before it returns.
  def test_a_fork_waits_for_a_handler_that_makes_way
    result = script(<<~RUBY)
      NB::Drivers::SQLite::Waits.singleton_class.prepend(Module.new do
        def put_off?(*) = super.tap { |later| sleep 0.2 if later }
      end)
      db = connect(:busy_timeout)
      thread = Thread.new { db.execute("BEGIN IMMEDIATE") }
      Thread.pass until thread.backtrace.to_a.join.include?("put_off?") && thread.stop?
      Process.wait(fork { puts "child" })
      holder.execute("COMMIT")
      thread.join
    RUBY
    assert_equal ["child\n", "", false], [result.out, result.err, result.hung]
  end

  def test_a_process_of_a_loop_whose_fiber_waits
    result = script(<<~RUBY)
      db = connect(:busy_timeout)
      NB.run do
        task = NB.async { db.execute("INSERT INTO t VALUES (1)") }
        NB.async { sleep(0.3) && holder.execute("COMMIT") }
        p NB.in_process { 6 * 7 }
        task.wait
      end
      p holder.execute("SELECT * FROM t")
    RUBY
    assert_equal ["42\n[[1]]\n", "", false], [result.out, result.err, result.hung]
  end

  # A wait that has no end in sight does not keep a fork waiting; the parent is not harmed.
  def test_a_fork_does_not_wait_for_ever
    result = script(<<~RUBY)
      db = connect(:busy_timeout)
      thread = asleep(Thread.new { db.execute("INSERT INTO t VALUES (1)") })
      pid = fork { exit!(true) }
      holder.execute("COMMIT")
      thread.join
      Process.kill(:KILL, pid)
      Process.wait(pid)
      p holder.execute("SELECT * FROM t")
    RUBY
    assert_equal ["[[1]]\n", "", false], [result.out, result.err, result.hung]
  end

  # The child's own forks wait for nobody of the parent's.
  def test_a_child_has_nobody_to_wait_for
    result = script(<<~RUBY)
      db = connect(:busy_timeout)
      thread = asleep(Thread.new { db.transaction(:immediate) { nil } })
      Process.wait(fork do
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        Process.wait(fork { puts "grandchild" })
        puts "late" if Process.clock_gettime(Process::CLOCK_MONOTONIC) - start > 1.5
      end)
      holder.execute("COMMIT")
      thread.join
    RUBY
    assert_equal ["grandchild\n", "", false], [result.out, result.err, result.hung]
  end
end

# frozen_string_literal: true

require_relative "../support/http_servers"
require_relative "../support/transparency"
require "sqlite3"
require "typhoeus"
require_relative "../support/clock"
require_relative "../support/timing"

# What is interrupted while it waits in a library: the library stays usable, nothing is freed that
# its C code still uses.
class InterruptedTest < Minitest::Test
  include Clock

  def setup
    skip "needs a namespace of its own" unless NAMES_ARE_LATE
    HTTPServers.plain
  end

  def test_a_timeout_of_an_offloaded_call_comes_when_the_call_has_ended
    NB.run do
      took = seconds do
        assert_raises(Timeout::Error) { NB.timeout(0.05) { Typhoeus.get(HTTPServers.url(300)) } }
      end
      assert_operator took, :>=, 0.28
      assert_equal "done", Typhoeus.get(HTTPServers.url).body
    end
  end

  def test_a_cancelled_fiber_waits_for_its_offloaded_call
    NB.run do
      took = seconds do
        asking = NB.async { Typhoeus.get(HTTPServers.url(300)) }
        sleep 0.05
        asking.cancel
        asking.wait
        refute_predicate asking, :alive?
      end
      assert_operator took, :>=, 0.28
    end
  end

  # All three wait in Ruby, in a block that SQLite calls.
  WAITS_FOR_SQLITE = {
    "busy_timeout=" => ->(db) { db.busy_timeout = 10_000 },
    "busy_handler_timeout=" => ->(db) { db.busy_handler_timeout = 10_000 },
    "busy_handler" => ->(db) { db.busy_handler { sleep(0.001) || true } }
  }.freeze

  WAITS_FOR_SQLITE.each do |name, set|
    define_method("test_a_timeout_ends_a_wait_for_sqlites_lock_#{name}") do
      locked(set) do |db|
        NB.run do
          took = seconds do
            assert_raises(Timeout::Error) { NB.timeout(0.1) { insert(db) } }
          end
          assert_in_time took, 2
          assert_equal [[0]], db.execute("SELECT count(*) FROM t")
          sleep 0.05 # nothing comes later
        end
      end
    end

    define_method("test_a_cancel_ends_a_wait_for_sqlites_lock_#{name}") do
      locked(set) do |db|
        NB.run do
          writing = NB.async { tries(db) }
          sleep 0.05
          writing.cancel
          assert_in_time(seconds { writing.wait }, 2)
          refute_predicate writing, :alive?
        end
        assert_equal [[0]], db.execute("SELECT count(*) FROM t")
      end
    end
  end

  # In a process of its own: who left SQLite in the middle had one of its locks, and the next thread
  # stops the process.
  def test_another_thread_can_use_a_connection_of_sqlite_whose_wait_was_interrupted
    result = Subprocess.ruby(<<~RUBY)
      require "sqlite3"
      require "tmpdir"
      Dir.mktmpdir do |folder|
        holder, db = Array.new(2) { SQLite3::Database.new("\#{folder}/x.db") }
        holder.execute("CREATE TABLE t (n)")
        holder.execute("BEGIN IMMEDIATE")
        db.busy_handler_timeout = 10_000
        NB.run do
          NB.timeout(0.05) { db.execute("INSERT INTO t VALUES (1)") }
        rescue Timeout::Error
          holder.execute("ROLLBACK")
        end
        print Thread.new { db.execute("SELECT count(*) FROM t") }.value
      end
    RUBY
    assert_equal "[[0]]", result.out, result.err
  end

  # Without the cures the loop stands still: so they are what makes it wait.
  def test_without_the_cure_it_blocks
    took = ["", "-ethon"].map do |off|
      result = Subprocess.ruby(<<~RUBY, env: { **ENV.to_h, "NB_DRIVERS" => off })
        require "typhoeus"
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        NB.run { Array.new(5) { NB.async { Typhoeus.get("#{HTTPServers.url(200)}") } }.each(&:wait) }
        print Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
      RUBY
      Float(result.out)
    end

    assert_in_time took.first, 0.7
    assert_operator took.last, :>=, 1.0
  end

  private

  # A program that tries again and again, as some do.
  def tries(db)
    insert(db)
  rescue SQLite3::BusyException
    sleep 0.01
    retry
  end

  def insert(db) = db.execute("INSERT INTO t VALUES (1)")

  def locked(set)
    Dir.mktmpdir("nb") do |folder|
      holder, db = Array.new(2) { SQLite3::Database.new("#{folder}/x.db") }
      holder.execute("PRAGMA journal_mode = WAL")
      holder.execute("CREATE TABLE t (n)")
      holder.execute("BEGIN IMMEDIATE")
      set.call(db)
      yield db
    ensure
      [holder, db].compact.each(&:close)
    end
  end
end

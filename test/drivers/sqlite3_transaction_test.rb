# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "sqlite3"
require "timeout"

# A transaction that an interruption ends in the middle: all of it is committed, or nothing.
class SQLite3TransactionTest < Minitest::Test
  INTERRUPTIONS = {
    "NB.timeout" => ->(work) { NB.timeout(0.01) { work.call } },
    "Timeout.timeout" => ->(work) { Timeout.timeout(0.01) { work.call } },
    "a cancel" => lambda do |work|
      reached = Thread::Queue.new
      writing = NB.async { work.call(reached) }
      reached.pop
      writing.cancel
      writing.value
    end
  }.freeze

  def setup
    @db = SQLite3::Database.new(":memory:")
    @db.execute("CREATE TABLE t (n)")
  end

  def teardown = @db.close

  INTERRUPTIONS.each do |name, interrupt|
    define_method("test_#{name}_commits_nothing") do
      NB.run do
        assert_raises(Timeout::Error, NB::TaskCancelledError) { interrupt.call(method(:write_and_wait)) }
        assert_empty rows
        refute_predicate @db, :transaction_active?
      end
    end
  end

  def test_an_interruption_after_the_blocks_own_rollback_comes_out_as_itself
    NB.run do
      assert_raises(Timeout::Error) do
        NB.timeout(0.01) { write_and_wait { @db.rollback } }
      end
      assert_empty rows
    end
  end

  def test_an_interruption_that_the_block_rescues_takes_nothing_back
    NB.run do
      @db.transaction do
        write
        NB.timeout(0.01) { sleep }
      rescue Timeout::Error
        write
      end
      assert_equal [1, 1], rows
    end
  end

  # What the gem itself makes of the ends of a block.
  ENDS = {
    "its value" => ->(db, write) { db.transaction(:immediate) { write.call && 7 } },
    "a break" => ->(db, write) { db.transaction { break write.call && 7 } },
    "a throw" => ->(db, write) { catch(:end) { db.transaction { write.call && throw(:end, 7) } } },
    "an error" => lambda do |db, write|
      db.transaction { write.call && raise(IOError, "wrong") }
    rescue IOError => error
      [error.message, error.cause]
    end,
    "no block" => lambda do |db, write|
      [db.transaction, write.call && db.transaction_active?, db.rollback]
    end
  }.freeze

  ENDS.each do |name, block|
    define_method("test_#{name}_is_as_without_a_loop") do
      plain, looped = [->(&all) { all.call }, NB.method(:run)].map do |way|
        way.call do
          @db.execute("DELETE FROM t")
          [block.call(@db, method(:write)), rows]
        end
      end

      assert_equal plain, looped
    end
  end

  private

  def write = @db.execute("INSERT INTO t VALUES (1)")
  def rows = @db.execute("SELECT n FROM t").flatten

  def write_and_wait(reached = nil)
    @db.transaction do
      write
      yield if block_given?
      reached&.push(true)
      sleep
    end
  end
end

# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"

# Something is interrupted inside a transaction, which rescues that and goes on: it keeps what it has
# written, or it raises. With mysql2 and trilogy an interrupted query costs the connection.
class RailsInterruptedTransactionTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  # A model each, and its like with a connection of its own.
  MODELS = RailsApp.pairs(self, "interrupted_rows")

  # A lock that Watch takes, what waits for it, and how Watch gives it back.
  LOCKS = {
    "postgresql" => ["SELECT pg_advisory_lock(7)", "SELECT pg_advisory_xact_lock(7)",
                     "SELECT pg_advisory_unlock(7)"],
    "mysql2" => ["SELECT GET_LOCK('7', 60)", "SELECT GET_LOCK('7', 60)", "SELECT RELEASE_LOCK('7')"]
  }.then { |locks| locks.merge("trilogy" => locks.fetch("mysql2")) }.freeze

  # How the query comes about. An error that ActiveRecord rescues makes it doubt the connection.
  WAYS = {
    "query" => ->(row, &wait) { row.with_connection(&wait) },
    "savepoint" => ->(row, &wait) { row.transaction(requires_new: true) { row.with_connection(&wait) } },
    "savepoint with a row" => lambda do |row, &wait|
      row.transaction(requires_new: true) do
        row.create!(name: "inner")
        row.with_connection(&wait)
      end
    end,
    "joined" => ->(row, &wait) { row.transaction { row.with_connection(&wait) } }
  }.freeze
  ERRORS = { "Timeout" => [], "an error of its own" => [IOError] }.freeze

  MODELS.each_key do |adapter|
    WAYS.each do |way, code|
      ERRORS.each do |error, arguments|
        define_method("test_#{adapter}_#{way}_#{error}".tr(" ", "_")) do
          take(adapter)
          told, names = try { interrupt(arguments) { code.call(@row) { |connection| wait(connection) } } }
          adapter == "postgresql" ? check_kept(told, names) : check_refused(told, names)
        end
      end
    end
  end

  MODELS.each_key do |adapter|
    define_method("test_#{adapter}_leaves_nothing_to_the_next") do
      take(adapter)
      @watch.with_connection { |connection| connection.select_value(@lock) }
      NB.run do
        interrupt([]) { @row.with_connection { |connection| wait(connection) } }
        assert_equal(1, NB.async { @row.with_connection { |connection| connection.select_value("SELECT 1") } }.value)
      end
    ensure
      @watch.with_connection { |connection| connection.select_value(@unlock) }
    end
  end

  # The database would answer its COMMIT with ROLLBACK.
  def test_postgresql_where_the_interrupted_query_fails
    take("postgresql")
    told, names = try do
      id = @row.with_connection { |connection| connection.select_value("SELECT pg_backend_pid()") }
      interrupt([]) { @row.with_connection { |connection| wait(connection) } }
      @watch.with_connection { |connection| connection.select_value("SELECT pg_cancel_backend(#{id})") }
    end
    assert_match(/was interrupted and failed/, told.to_s)
    assert_empty names
  end

  private

  def take(adapter)
    @row, @watch = MODELS.fetch(adapter)
    @lock, @wait, @unlock = LOCKS.fetch(adapter)
  end

  def wait(connection) = connection.select_value(@wait)

  # @return [Array] what the transaction said, and the rows there are
  def try(&block)
    NB.run do
      @watch.delete_all
      @watch.with_connection do |connection|
        connection.select_value(@lock)
        told = transaction(connection, &block)
        @unlocking.wait
        [told, @watch.pluck(:name)]
      end
    end
  end

  # The query may end before the transaction does, or while COMMIT waits for it.
  def transaction(watch)
    @row.transaction do
      @row.create!(name: "outer")
      yield
      @unlocking = NB.async { sleep(0.05) && watch.select_value(@unlock) }
    end
    :returned
  rescue ActiveRecord::ActiveRecordError => error
    error
  end

  def interrupt(arguments, &block)
    error = assert_raises(Timeout::Error, IOError, ActiveRecord::StatementInvalid) do
      NB.timeout(0.05, *arguments, &block)
    end
    assert_includes [error.class, error.cause.class], arguments.first || Timeout::Error
  end

  def check_kept(told, names) = assert_equal([:returned, ["outer"]], [told, names])

  def check_refused(told, names)
    assert_match(/lost inside the transaction/, told.to_s)
    assert_empty names
    assert_equal(1, NB.run { @row.with_connection { |connection| connection.select_value("SELECT 1") } })
  end
end
# rubocop:enable Layout/LineLength

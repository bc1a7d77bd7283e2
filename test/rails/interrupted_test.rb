# frozen_string_literal: true

require "rails/helper"
require "support/proxies"

# Who is interrupted while PostgreSQL begins his transaction leaves none behind, neither for the
# next who gets the connection nor for himself.
class RailsInterruptedTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  LATE = 0.1 # seconds by which each answer comes late

  # Accounts by one single connection.
  class Late < ActiveRecord::Base
    self.table_name = "accounts"
    port = Proxies.late(Databases.postgresql.port, LATE)
    establish_connection(Account.connection_db_config.configuration_hash
      .merge(port: port, max_connections: 1, pool: 1))
  end

  def setup
    Account.delete_all
    Account.create!(id: 1, balance: 100)
    NB.run { Late.count } # connects
  end

  def teardown = assert_equal([0, 0], Late.connection_pool.stat.values_at(:busy, :dead))

  def test_the_next_write_is_committed
    NB.run do
      task = NB.async { Late.transaction { Late.count } }
      sleep(LATE / 2)
      task.cancel.wait
      Late.update_all(balance: 50)
    end
    assert_equal 50, Account.find(1).balance
  end

  def test_the_next_write_on_a_connection_that_is_kept
    NB.run do
      Late.with_connection do
        interrupted(LATE / 2) { Late.transaction { Late.count } }
        interrupted(LATE / 2) { Late.transaction(isolation: :serializable) { Late.count } }
        Late.update_all(balance: 50)
      end
    end
    assert_equal 50, Account.find(1).balance
  end

  def test_the_transaction_goes_on_where_its_begin_was_interrupted
    NB.run do
      Late.transaction do
        interrupted(LATE / 2) { Late.count }
        Late.update_all(balance: 50)
        raise ActiveRecord::Rollback
      end
    end
    assert_equal 100, Account.find(1).balance
  end

  def test_a_savepoint_is_rolled_back_without_waiting_for_the_query
    NB.run do
      NB.timeout(10) do
        Late.transaction do
          Late.update_all(balance: 50)
          interrupted(5 * LATE) { Late.transaction(requires_new: true) { change_slowly } }
        end
      end
    end
    assert_equal 50, Account.find(1).balance
  end

  # PostgreSQL would warn of a ROLLBACK outside of a transaction.
  def test_a_query_outside_of_a_transaction_is_cancelled_without_a_warning
    warnings = []
    NB.run do
      Late.with_connection do |connection|
        connection.raw_connection.set_notice_processor { |text| warnings << text }
      end
      interrupted(5 * LATE) { change_slowly }
      Late.update_all(balance: 50)
      Late.with_connection { |connection| connection.raw_connection.set_notice_processor }
    end
    assert_empty warnings
  end

  # As in the gem with_advisory_lock: who has not seen that he has the lock does not release it.
  def test_an_advisory_lock_that_nobody_has_seen_is_released
    outer = {
      "no transaction" => ->(&lock) { interrupted(5 * LATE, &lock) },
      "rolled back" => ->(&lock) { interrupted(9 * LATE) { Late.transaction(&lock) } },
      "committed" => ->(&lock) { Late.transaction { interrupted(5 * LATE, &lock) } }
    }
    outer.each do |name, around|
      NB.run do
        around.call do
          Late.with_connection { |one| one.select_value("SELECT pg_advisory_lock(9), pg_sleep(2)") }
        end
        Late.count
      end
      assert_equal 0, Account.with_connection { |one| one.select_value(<<~SQL) }, name
        SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 9
      SQL
    end
  end

  private

  def interrupted(seconds, &block)
    assert_raises(Timeout::Error) { NB.timeout(seconds, &block) }
  end

  def change_slowly
    Late.update_all(balance: 1)
    Late.with_connection { |connection| connection.select_value("SELECT 1 FROM pg_sleep(30)") }
  end
end

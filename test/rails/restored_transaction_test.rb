# frozen_string_literal: true

require "rails/losses"

# A transaction that has written nothing loses its connection, and the next one as well while Rails
# makes it ready. What the block writes afterwards is taken back with the block.
class RailsRestoredTransactionTest < Minitest::Test
  include RailsLosses

  # What is under way when the connection is lost again.
  STEPS = %i[configure_connection begin_db_transaction].freeze

  MODELS.each_key do |adapter|
    STEPS.each do |step|
      define_method("test_#{adapter}_is_lost_twice_in_#{step}") do
        check(adapter) do |connection|
          losing(connection, step, 1) { read(connection) }
        end
      end
    end

    define_method("test_#{adapter}_does_not_continue_after_the_block_has_rescued_the_loss") do
      error = assert_raises(ActiveRecord::ConnectionNotEstablished) do
        check(adapter) do |connection|
          assert_raises(ActiveRecord::ConnectionFailed, ActiveRecord::DatabaseConnectionError) do
            losing(connection, :configure_connection, 9) { read(connection) }
          end
        end
      end
      assert_includes error.message, "lost inside the transaction"
      assert_taken_back { nil }
    end

    define_method("test_#{adapter}_is_lost_when_its_first_statement_connects") do
      take(adapter)
      assert_taken_back do
        @row.with_connection do |connection|
          connection.disconnect!
          @row.transaction do
            losing(connection, :configure_connection, 1) { @row.create!(name: "first") }
            @row.create!(name: "second")
            raise ActiveRecord::Rollback
          end
        end
      end
    end
  end

  # As long as nothing is written, blocks of `requires_new: true` belong to the one BEGIN.
  MODELS.each_key do |adapter|
    define_method("test_#{adapter}_is_lost_between_two_inner_blocks") do
      take(adapter)
      assert_taken_back do
        @row.transaction do
          in_a_block_after_another { @row.create!(name: "middle") }
          @row.create!(name: "outer")
          assert_equal %w[middle outer], @row.order(:name).pluck(:name)
          raise ActiveRecord::Rollback
        end
      end
    end
  end

  # It sees what Watch has not committed, so it has the isolation that it asked for.
  %w[mysql2 trilogy].each do |adapter|
    define_method("test_#{adapter}_is_lost_between_setting_the_isolation_and_begin") do
      take(adapter)
      @watch.transaction do
        @watch.create!(name: "open")
        assert_equal(["open"], NB.run { names_where_begin_is_lost(:read_uncommitted) })
        raise ActiveRecord::Rollback
      end
    end
  end

  # Rails 7.2 asks for the search path while it prepares the statement, and takes that for a write.
  def test_postgresql_is_lost_before_a_prepared_statement
    begin
      check("postgresql") { @row.first }
    rescue ActiveRecord::ConnectionNotEstablished => error
      assert_includes error.message, "lost inside the transaction"
    end
    assert_taken_back { nil }
  end

  private

  # The connection ends between the two.
  def in_a_block_after_another
    @row.transaction(requires_new: true) do
      @row.transaction(requires_new: true) do
        @row.create!(name: "inner")
        raise ActiveRecord::Rollback
      end
      @row.with_connection do |connection|
        lose(connection)
        read(connection)
      end
      yield
    end
  end

  # The transaction begins, and its connection ends before the block.
  def check(adapter)
    take(adapter)
    assert_taken_back do
      @row.transaction do
        @row.with_connection do |connection|
          connection.materialize_transactions
          lose(connection)
          yield connection
        end
        @row.create!(name: "first")
        @row.create!(name: "second")
        raise ActiveRecord::Rollback
      end
    end
  end

  def names_where_begin_is_lost(isolation)
    @row.with_connection do |connection|
      losing(connection, :raw_execute, of: "BEGIN") do
        @row.transaction(isolation: isolation) { @row.pluck(:name) }
      end
    end
  end

  # A query that Rails may repeat on another connection.
  def read(connection) = connection.unprepared_statement { @row.first }
end

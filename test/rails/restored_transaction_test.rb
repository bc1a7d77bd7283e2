# frozen_string_literal: true

require "rails/helper"

# A transaction that has written nothing loses its connection, and the next one as well while Rails
# makes it ready. What the block writes afterwards is taken back with the block.
class RailsRestoredTransactionTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  ADAPTERS = { "postgresql" => Databases.postgresql, "mysql2" => Databases.mariadb,
               "trilogy" => Databases.mariadb }.freeze
  # A model each, and one with a connection of its own that ends the other's.
  MODELS = ADAPTERS.to_h do |adapter, place|
    pair = %w[Row Watch].map do |role|
      name = "#{role}#{adapter.capitalize}"
      model = const_set(name, Class.new(ActiveRecord::Base) { self.abstract_class = true })
      model.establish_connection(adapter: "neverblock_#{adapter}", connections: 1, **place.options)
      const_set("#{name}s", Class.new(model) { self.table_name = "restored_rows" })
    end
    pair.last.with_connection do |connection|
      connection.create_table("restored_rows", force: true) { |table| table.text(:name) }
    end
    [adapter, pair]
  end.freeze

  # The database's number for a connection, and how to end the connection by it.
  NUMBERS = { "postgresql" => lambda(&:backend_pid),
              "mysql2" => lambda(&:thread_id),
              "trilogy" => ->(raw) { raw.query("SELECT CONNECTION_ID()").first.first } }.freeze
  ENDS = Hash.new("KILL %s").update("postgresql" => "SELECT pg_terminate_backend(%s)").freeze

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

  def take(adapter)
    @adapter = adapter
    @row, @watch = MODELS.fetch(adapter)
    @row.delete_all
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

  def assert_taken_back(&block)
    NB.run(&block)
    assert_empty @watch.pluck(:name)
    @row.transaction { @row.create!(name: "kept") }
    assert_equal ["kept"], @watch.pluck(:name)
    @row.delete_all
  end

  # A query that Rails may repeat on another connection.
  def read(connection) = connection.unprepared_statement { @row.first }

  # Loses the connection at the beginning of a step, so many times.
  def losing(connection, step, times)
    test = self
    connection.define_singleton_method(step) do |*arguments|
      test.send(:lose, self) if (times -= 1) >= 0
      super(*arguments)
    end
    yield
  ensure
    connection.singleton_class.remove_method(step)
  end

  def lose(connection)
    number = NUMBERS.fetch(@adapter).call(connection.instance_variable_get(:@raw_connection))
    @watch.with_connection { |watch| watch.execute(format(ENDS[@adapter], number)) }
    sleep(0.02) # until the database has closed it
  end
end

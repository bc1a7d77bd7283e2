# frozen_string_literal: true

require "rails/helper"

# Models with one connection each, which a test loses at a step of Rails' own.
module RailsLosses
  RailsApp.load("neverblock_postgresql")

  # A model each, and one with a connection of its own that ends the other's.
  MODELS = RailsApp.pairs(self, "restored_rows")

  # The database's number for a connection, and how to end the connection by it.
  NUMBERS = { "postgresql" => lambda(&:backend_pid),
              "mysql2" => lambda(&:thread_id),
              "trilogy" => ->(raw) { raw.query("SELECT CONNECTION_ID()").first.first } }.freeze
  ENDS = Hash.new("KILL %s").update("postgresql" => "SELECT pg_terminate_backend(%s)").freeze
  LIVES = Hash.new("SELECT 1 FROM information_schema.processlist WHERE id = %s")
              .update("postgresql" => "SELECT 1 FROM pg_stat_activity WHERE pid = %s").freeze

  private

  def take(adapter)
    @adapter = adapter
    @row, @watch = MODELS.fetch(adapter)
    @row.delete_all
  end

  def assert_taken_back(&block)
    NB.run(&block)
    assert_empty @watch.pluck(:name)
    assert_whole
  end

  # The next transaction is one.
  def assert_whole
    @watch.delete_all
    @row.transaction { @row.create!(name: "kept") }
    assert_equal ["kept"], @watch.pluck(:name)
    @row.delete_all
    assert_equal [0, 0], @row.connection_pool.stat.values_at(:busy, :dead)
  end

  # Loses the connection at the beginning of a step, so many times.
  def losing(connection, step, times = 1, of: nil, &block)
    at(connection, step, of: of, make: -> { lose(connection) if (times -= 1) >= 0 }, &block)
  end

  # Does something at the beginning of a step.
  def at(connection, step, make:, of: nil)
    connection.define_singleton_method(step) do |*arguments, **options|
      make.call if of.nil? || of == arguments.first
      super(*arguments, **options)
    end
    yield
  ensure
    connection.singleton_class.remove_method(step)
  end

  def lose(connection)
    number = NUMBERS.fetch(@adapter).call(connection.instance_variable_get(:@raw_connection))
    @watch.with_connection do |watch|
      watch.execute(format(ENDS[@adapter], number))
      sleep(0.001) while watch.select_value(format(LIVES[@adapter], number))
    end
  end
end

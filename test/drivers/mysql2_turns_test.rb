# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "mysql2"
require_relative "../support/databases"

NB::Task.report_on_exception = false # the tests look at what is raised

# mysql2 lets other fibers have their turn after a read or write, if its fiber has had two
# milliseconds. What strikes then has met a call in its middle, though the library need not wait any
# more and so does not close the connection by itself.
class Mysql2TurnsTest < Minitest::Test
  STRIKES = { "cancel" => [->(task) { task.cancel }, NB::TaskCancelledError],
              "raise" => [->(task) { task.fiber.raise(KeyError, "enough") }, KeyError] }.freeze

  STRIKES.each do |name, (strike, error)|
    define_method("test_#{name}_between_sending_and_reading") do
      NB.run do
        client = Mysql2::Client.new(**Databases.mariadb.options)
        task = begin_query(client)
        strike.call(task)
        assert_raises(error) { task.value }
        assert_predicate client, :closed?
      end
    end
  end

  def test_undisturbed_it_stays_open
    NB.run do
      client = Mysql2::Client.new(**Databases.mariadb.options)
      begin_query(client).value
      assert_equal [{ "a" => 7 }], client.async_result.to_a
      assert_equal [{ "b" => 8 }], client.query("SELECT 8 AS b").to_a
    ensure
      client&.close
    end
  end

  private

  # Its fiber has sent the query, and lets this one have its turn.
  def begin_query(client)
    NB.async do
      over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.01
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < over
      client.query("SELECT 7 AS a", async: true)
    end
  end
end

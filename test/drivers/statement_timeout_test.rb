# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "mysql2"
require "pg"
require_relative "../support/databases"

# What docs/COOKBOOK.md says of statements: the database ends them with the deadline of the fiber.
class StatementTimeoutTest < Minitest::Test
  LIMIT = 100

  def test_pg_takes_what_is_left
    NB.run do
      NB.timeout(LIMIT) do
        PG.connect(Databases.postgresql.url) do |connection|
          connection.exec("SET statement_timeout = #{(NB.deadline * 1000).ceil}")
          left = connection.exec("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'")
          assert_includes 1..LIMIT * 1000, Integer(left.getvalue(0, 0))
        end
      end
    end
  end

  def test_pg_ends_a_statement
    NB.run do
      PG.connect(Databases.postgresql.url) do |connection|
        NB.timeout(LIMIT) do
          connection.exec("SET statement_timeout = #{(NB.deadline * 1000 / LIMIT / 10).ceil}")
          assert_raises(PG::QueryCanceled) { connection.exec("SELECT pg_sleep(60)") }
        end
        assert_equal "1", connection.exec("SELECT 1").getvalue(0, 0), "the connection is of use"
      end
    end
  end

  def test_mysql2_takes_what_is_left
    NB.run do
      client = Mysql2::Client.new(**Databases.mariadb.options)
      NB.timeout(LIMIT) do
        client.query("SET max_statement_time = #{NB.deadline}")
        left = client.query("SELECT @@max_statement_time AS seconds").first.fetch("seconds")
        assert_includes 0.001..LIMIT, left.to_f
      end
    ensure
      client&.close
    end
  end
end

# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "mysql2"
require "pg"
require_relative "../support/databases"

# What docs/COOKBOOK.md says of statements: the database ends them with the deadline of the fiber,
# and the limit ends with the statement or the transaction.
class StatementTimeoutTest < Minitest::Test
  LIMIT = 100

  def test_pg_takes_what_is_left
    NB.run do
      NB.timeout(LIMIT) do
        PG.connect(Databases.postgresql.url) do |connection|
          connection.transaction do
            connection.exec("SET LOCAL statement_timeout = #{(NB.deadline * 1000).ceil}")
            assert_includes 1..LIMIT * 1000, limit_of(connection)
          end
          assert_equal 0, limit_of(connection)
        end
      end
    end
  end

  def test_pg_ends_a_statement
    NB.run do
      PG.connect(Databases.postgresql.url) do |connection|
        NB.timeout(LIMIT) do
          assert_raises(PG::QueryCanceled) do
            connection.transaction do
              limit = (NB.deadline * 1000 / LIMIT / 10).ceil
              connection.exec("SET LOCAL statement_timeout = #{limit}")
              connection.exec("SELECT pg_sleep(60)")
            end
          end
        end
        assert_equal "1", connection.exec("SELECT 1").getvalue(0, 0), "the connection is of use"
      end
    end
  end

  def test_mysql2_takes_what_is_left
    NB.run do
      client = Mysql2::Client.new(**Databases.mariadb.options)
      NB.timeout(LIMIT) do
        left = client.query("SET STATEMENT max_statement_time = #{NB.deadline} FOR " \
                            "SELECT @@max_statement_time AS seconds").first.fetch("seconds")
        assert_includes 0.001..LIMIT, left.to_f
        left = client.query("SELECT @@max_statement_time AS seconds").first.fetch("seconds")
        assert_equal 0.0, left.to_f
      end
    ensure
      client&.close
    end
  end

  # The `tidy:` of docs/DATABASES.md.
  def test_tidy_keeps_the_connection
    page = File.read(File.expand_path("../../docs/DATABASES.md", __dir__), encoding: "UTF-8")
    tidy = eval(page[/`tidy: (->\(db\) \{.+?\})`/, 1]) # rubocop:disable Security/Eval -- ours
    NB.run do
      pool = NB::ConnectionPool.new(size: 1, tidy: tidy) { PG.connect(Databases.postgresql.url) }
      first = pool.with(&:backend_pid)
      assert_raises(IOError) do
        pool.with { |db| db.exec("BEGIN; SET search_path = x") && raise(IOError) }
      end
      assert_equal [first, "0"], pool.with { |db| [db.backend_pid, db.exec(<<~SQL).getvalue(0, 0)] }
        SELECT count(*) FROM pg_settings WHERE name = 'search_path' AND setting = 'x'
      SQL
      pool.close
    end
  end

  private

  # Milliseconds.
  def limit_of(connection)
    left = connection.exec("SELECT setting FROM pg_settings WHERE name = 'statement_timeout'")
    Integer(left.getvalue(0, 0))
  end
end

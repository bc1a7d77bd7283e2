# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "sequel"
require "pg"
require "mysql2"
require "sqlite3"
require "neverblock/server"
require_relative "../support/databases"

# What Sequel sends is in nb_database_…, by adapter.
class SequelTimeTest < Minitest::Test
  def counted(adapter)
    metrics = NB::Server.new(nil).metrics
    %i[nb_database_queries nb_database_seconds].map { |name| metrics[name].fetch(adapter, 0) }
  end

  # @return [Array(Integer, Float)] queries and seconds of the block
  def change(adapter)
    before = counted(adapter)
    yield
    counted(adapter).zip(before).map { |after, was| after - was }
  end

  {"postgres" => [-> { Databases.postgresql.url }, "SELECT pg_sleep(0.05)"],
   "mysql2" => [-> { Databases.mariadb.url }, "SELECT sleep(0.05)"]}.each do |adapter, (url, sql)|
    define_method("test_queries_with_#{adapter}_are_counted") do
      database = Sequel.connect(url.call)
      database.get(1) # connects
      found = change(adapter) { NB.run { NB.gather(*[-> { database.fetch(sql).all }] * 4) } }
      assert_operator found.first, :>=, 4 # and what new connections are set to
      assert_operator found.last, :>=, 0.2
      assert_equal 3, (change(adapter) { 3.times { database.get(1) } }).first
    ensure
      database&.disconnect
    end
  end

  def test_a_query_that_fails_is_counted_and_fails_the_same
    database = Sequel.sqlite
    database.get(1)
    found = change("sqlite") { assert_raises(Sequel::DatabaseError) { database.run("SELECT oops") } }
    assert_equal 1, found.first
  ensure
    database&.disconnect
  end
end

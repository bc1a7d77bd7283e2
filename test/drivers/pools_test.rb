# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "../support/databases"
require_relative "../support/subprocess"

# What NB.pools tells of the pools of ActiveRecord, of Sequel and of the connection_pool gem, and
# how queries are counted: each in a process of its own, with the real library.
class DriverPoolsTest < Minitest::Test
  # One fiber holds the only connection for 0.3 s, another waits; the pools at 0.1 s and at the end.
  BUSY = <<~'RUBY'
    def tell(use)
      seen = nil
      before = NB::DatabaseTime.queries.values.sum
      NB.run do
        NB.async(name: "holder") { use.call { sleep 0.3 } }
        NB.async(name: "waiter") { use.call { nil } }
        sleep 0.1
        seen = NB.pools.find { |pool| pool[:kind] == KIND }
      end
      after = NB.run { NB.pools.find { |pool| pool[:kind] == KIND } }
      queries = NB::DatabaseTime.queries.values.sum - before
      puts JSON.generate([seen, after, queries, NB::DatabaseTime.seconds])
    end
  RUBY

  ACTIVE_RECORD = <<~'RUBY'
    require "neverblock"
    require "json"
    require "active_record"
    KIND = "ActiveRecord"
    ActiveRecord::Base.establish_connection(JSON.parse(ENV.fetch("DATABASE")))
    NB.run { ActiveRecord::Base.with_connection { |connection| connection.select_value("SELECT 1") } }
    tell(lambda do |&block|
      ActiveRecord::Base.with_connection do |connection|
        connection.select_value("SELECT 1 FROM pg_sleep(0.05)")
        ActiveRecord::Base.cache { 2.times { connection.select_value("SELECT 7") } }
        block.call
      end
    end)
  RUBY

  SEQUEL = <<~'RUBY'
    require "neverblock"
    require "json"
    require "sequel"
    KIND = "Sequel"
    database = Sequel.sqlite("shop.db", max_connections: 1)
    tell(->(&block) { database.synchronize { block.call } })
    File.delete("shop.db")
  RUBY

  GEM = <<~'RUBY'
    require "neverblock"
    require "json"
    require "connection_pool"
    KIND = "ConnectionPool"
    pool = ConnectionPool.new(size: 1, timeout: 1) { Object.new }
    tell(->(&block) { pool.with { block.call } })
  RUBY

  def test_active_record
    Databases.there?(:postgresql) || missing("PostgreSQL")
    options = Databases.postgresql.options
    database = JSON.generate(adapter: "postgresql", max_connections: 1, pool: 1, **options)
    busy, after, queries, seconds = run_program(ACTIVE_RECORD, "DATABASE" => database)
    assert_equal ["primary", 1, 1, 0, 1],
      busy.values_at("name", "size", "in_use", "idle", "waiting")
    assert_equal ["holder", "waiter"], names(busy)
    held = busy["holders"].first["held_seconds"]
    assert_operator held, :>=, busy["waiters"].first["waited_seconds"]
    assert_operator busy["waiters"].first["waited_seconds"], :>=, 0.1
    assert_equal [0, 1, 0], after.values_at("in_use", "waits_total", "timeouts_total")
    assert_operator after["wait_seconds_total"], :>=, 0.3
    assert_equal 4, queries, "those of the query cache count too"
    assert_operator seconds["PostgreSQL"], :>=, 0.1
  end

  def test_sequel
    busy, after, = run_program(SEQUEL)
    assert_equal ["sqlite/shop.db", 1, 1, 0], busy.values_at("name", "size", "in_use", "idle")
    assert_match(/holder/, busy["holders"].first["name"])
    assert_equal 0, after["in_use"]
    assert_nil after["waits_total"], "Sequel counts none"
    if RUBY_VERSION < "3.2"
      assert_nil busy["waiting"]
    else
      assert_equal [1, ["holder", "waiter"]], [busy["waiting"], names(busy)]
    end
  end

  def test_the_connection_pool_gem
    busy, after, = run_program(GEM)
    assert_match(/\A-e:\d+\z/, busy["name"])
    assert_equal [1, 1, 0, 1, []], busy.values_at("size", "in_use", "idle", "waiting", "holders")
    assert_match(/waiter/, busy["waiters"].first["name"])
    assert_includes 0.09..20, busy["waiters"].first["waited_seconds"] # 0.1, or what it took
    assert_equal [0, 1, 0, 1, 0],
      after.values_at("in_use", "idle", "waiting", "waits_total", "timeouts_total")
    assert_operator after["wait_seconds_total"], :>=, 0.1
  end

  private

  def names(pool)
    %w[holders waiters].map { |what| pool[what].first["name"][/(?:holder|waiter)/] }
  end

  def run_program(program, env = {})
    result = Subprocess.ruby(BUSY + program, env: {**ENV.to_h, **env}, loaded: false, limit: 60)
    refute result.hung, "it has not ended within 60 s"
    assert_empty result.err
    JSON.parse(result.out)
  end
end

# frozen_string_literal: true

require "rails/helper"
require "neverblock/server"

# Requests in fibers on one thread, each with its role and shard: none ever asks the database of
# another.
class RailsShardsTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  # @return [Hash] how to get to a new database of that name
  def self.create(name)
    Account.with_connection { |connection| connection.recreate_database(name) }
    Account.connection_db_config.configuration_hash
      .merge(database: name, max_connections: 4, pool: 4)
  end

  # Two shards, each with a database to write to and another to read from.
  class Record < ActiveRecord::Base
    self.abstract_class = true
    all = %w[one two three].map do |name|
      ActiveRecord::DatabaseConfigurations::HashConfig
        .new("test", name, RailsShardsTest.create("shard_#{name}"))
    end
    all.concat(ActiveRecord::Base.configurations.configurations)
    ActiveRecord::Base.configurations = ActiveRecord::DatabaseConfigurations.new(all)
    connects_to shards: { default: { writing: :one, reading: :two },
                          other: { writing: :three, reading: :one } }
  end

  PLACES = { %i[default writing] => "shard_one", %i[default reading] => "shard_two",
             %i[other writing] => "shard_three", %i[other reading] => "shard_one" }.freeze

  def teardown
    ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
    pools = ActiveRecord::Base.connection_handler.connection_pool_list(:all)
    assert_equal [[0, 0, 0]], pools.map { |pool| pool.stat.values_at(:busy, :dead, :waiting) }.uniq
  end

  def test_connected_to
    NB.run do
      NB.map(PLACES.to_a * 50, concurrency: 200) do |(shard, role), name|
        Rails.application.executor.wrap { visit(shard, role, name) }
      end
    end
  end

  # As Rails' own middlewares choose, by the request.
  def test_the_middlewares_for_roles_and_shards
    server = NB::Server.new(middlewares, bind: "tcp://127.0.0.1:0", fibers: 64, log: $stderr)
    started = Thread::Queue.new
    thread = Thread.new { server.run { started << server.port } }
    port = started.pop
    NB.run do
      NB.map(PLACES.to_a * 20, concurrency: 40) do |place, name|
        assert_equal name, ask(port, *place)
      end
    end
  ensure
    server.stop
    thread.join
  end

  private

  def database = Record.with_connection { |connection| connection.current_database }

  def visit(shard, role, name)
    Record.connected_to(shard: shard, role: role) do
      sleep(rand * 0.003)
      assert_equal name, database
      assert_equal [name] * 2, NB.gather(-> { database }, -> { sleep(0.001) && database })
      Record.connected_to(shard: :other, role: :writing) { assert_equal "shard_three", database }
      Record.transaction { assert_equal name, Enumerator.new { |names| names << database }.next }
      assert_equal name, database
    end
    assert_equal %i[default writing], [Record.current_shard, Record.current_role]
  end

  # Without a session, a request that reads goes to the copy.
  class Nothing < ActiveRecord::Middleware::DatabaseSelector::Resolver::Session
    def self.call(_request) = new({})
    def save(*) = nil
  end

  def middlewares
    selectors = ActiveRecord::Middleware
    by_role = selectors::DatabaseSelector.new(method(:answer), nil, Nothing)
    by_shard = selectors::ShardSelector.new(by_role, ->(request) { request.params["shard"].to_sym })
    ->(env) { Rails.application.executor.wrap { by_shard.call(env) } }
  end

  def answer(_env)
    sleep(rand * 0.003)
    [200, {}, [NB.gather(-> { database })[0]]]
  end

  def ask(port, shard, role)
    Net::HTTP.start("127.0.0.1", port) do |http|
      http.send_request(role == :writing ? "POST" : "GET", "/?shard=#{shard}").body
    end
  end
end

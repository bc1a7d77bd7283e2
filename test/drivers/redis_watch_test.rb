# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "redis-client"
require "redis"
require "redis-clustering"
require_relative "../support/databases"

# A WATCH whose block is interrupted does not reach the next user of the connection. Otherwise that
# user's transaction is not carried out, although it watches nothing.
class RedisWatchTest < Minitest::Test
  # What watches, and what the next user does.
  CLIENTS = {
    "redis-client" => [
      ->(client, block) { client.multi(watch: "watched", &block) },
      ->(client) { client.multi { |transaction| transaction.call("INCR", "counted") } }
    ],
    "redis" => [
      ->(client, block) { client.watch("watched", &block) },
      ->(client) { client.multi { |transaction| transaction.incr("counted") } }
    ],
    "redis-cluster-client" => [
      ->(client, block) { client.multi(watch: %w[watched], &block) },
      ->(client) { client.multi { |transaction| transaction.call("INCR", "counted") } }
    ],
    "redis-clustering" => [
      ->(client, block) { client.watch("watched") { |transaction| block.call(transaction) } },
      ->(client) { client.multi { |transaction| transaction.incr("counted") } }
    ]
  }.freeze
  LEFT = {
    cancel: ->(entered, work) { NB.async(&work).tap { entered.pop }.cancel.wait },
    timeout: ->(_, work) { NB.timeout(0.05, &work) },
    plain_timeout: ->(_, work) { Timeout.timeout(0.05, &work) },
    own_timeout: ->(_, work) { Timeout.timeout(0.05, KeyError, &work) }
  }.freeze

  def setup
    @place = name.include?("cluster") ? Databases.redis_cluster : Databases.redis
    @other = RedisClient.config(host: @place.host, port: @place.port).new_client
    @other.call("DEL", "counted")
  end

  def teardown = @other.close

  def connect(name)
    options = { host: @place.host, port: @place.port }
    nodes = ["redis://#{@place.host}:#{@place.port}"]
    case name
    when "redis" then Redis.new(**options)
    when "redis-client" then RedisClient.config(**options).new_client
    when "redis-clustering" then Redis::Cluster.new(nodes: nodes)
    when "redis-cluster-client" then RedisClient.cluster(nodes: nodes).new_client
    end
  end

  CLIENTS.each do |name, (watch, count)|
    LEFT.each do |how, leave|
      define_method("test_#{name.tr("-", "_")}_left_by_#{how}") do
        NB.run do
          client = connect(name).tap { |one| one.call("PING") }
          interrupt(client, watch, leave)
          @other.call("SET", "watched", "changed")
          assert_equal [1], count.call(client)
        ensure
          client.close
        end
      end
    end

    define_method("test_#{name.tr("-", "_")}_whole") do
      NB.run do
        client = connect(name)
        connection = client.call("CLIENT", "ID")
        watch.call(client, ->(*) {})
        assert_raises(KeyError) { watch.call(client, ->(*) { raise KeyError }) }
        @other.call("SET", "watched", "changed")
        # The gem redis leaves the end of a WATCH without EXEC to the program.
        client.unwatch if name == "redis"
        assert_equal [[1], connection], [count.call(client), client.call("CLIENT", "ID")]
      ensure
        client.close
      end
    end
  end

  private

  def interrupt(client, watch, leave)
    entered = Thread::Queue.new
    leave.call(entered, ->(*) { watch.call(client, ->(*) { (entered << true) && sleep }) })
  rescue Timeout::Error, KeyError
    nil
  end
end

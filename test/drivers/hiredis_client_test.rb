# frozen_string_literal: true

require_relative "../support/transparency"
require "hiredis-client"

# hiredis-client, which takes redis-client over: in a loop it is not used.
class HiredisClientTest < Transparency
  library "hiredis-client", group: "Redis and memcached", gems: %w[hiredis-client],
          server: -> { Databases.redis },
          against: -> { "Redis #{`redis-server --version`[/v=(\S+)/, 1]}" },
          cure: "NeverBlock selects redis-client's own driver, and says so"

  waits "a blocking command" do
    clients = together { connect }
    assert_equal [nil], measure { |i| clients[i].call("BLPOP", "none#{i}", 0.1) }.uniq
  ensure
    clients&.each(&:close)
  end

  blocks "a blocking command on a connection made outside the loop", why: "waits in C",
         instead: "make the connection inside the loop" do
    measure(count: 5) { |i| clients_outside[i].call("BLPOP", "none#{i}", 0.1) }
  end

  def setup
    super
    clients_outside
  end

  def teardown = @clients_outside&.each(&:close)

  def test_outside_of_a_loop_it_is_hiredis
    assert_instance_of RedisClient::HiredisConnection, connect.send(:raw_connection)
  end

  def test_it_is_told_once
    result = Subprocess.ruby(<<~RUBY, env: ENV.to_h)
      require "hiredis-client"
      NB.run { 2.times { RedisClient.config(port: #{server.port}).new_client.call("PING") } }
    RUBY

    assert_equal 1, result.err.scan("neverblock: hiredis-client: waits in C").size, result.err
  end

  private

  def clients_outside = @clients_outside ||= Array.new(5) { connect }

  def connect
    RedisClient.config(port: server.port, timeout: 5).new_client.tap { |one| one.call("PING") }
  end
end

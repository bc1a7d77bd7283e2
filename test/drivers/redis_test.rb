# frozen_string_literal: true

require_relative "../support/transparency"
require "redis"

# redis-rb, on redis-client.
class RedisTest < Transparency
  library "redis", group: "Redis and memcached", gems: %w[redis redis-client],
          server: -> { Databases.redis },
          against: -> { "Redis #{`redis-server --version`[/v=(\S+)/, 1]}" }

  waits "a blocking command" do
    clients = together { connect }
    assert_equal [nil], measure { |i| clients[i].blpop("none#{i}", timeout: 0.1) }.uniq
  ensure
    clients&.each(&:close)
  end

  waits "a transaction" do
    clients = together { connect(port: late) }
    values = measure { |i| clients[i].multi { |m| 3.times { m.incr("m#{i}") } } }
    assert_equal [3], values.map(&:size).uniq
  ensure
    clients&.each(&:close)
  end

  waits "a message published to a subscriber" do
    clients = together { connect }
    other = connect
    sending = NB.async { publish(other, 50) }
    assert_equal ["hello"], measure { |i| received(clients[i], "channel#{i}") }.uniq
    sending.wait
  ensure
    [*clients, other].compact.each(&:close)
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    clients = measure(delay: 0.3) { connect(host: name) }
  ensure
    clients&.each(&:close)
  end

  fails "refused" do
    connect(port: Proxies.nobody)
  end

  fails "unknown host" do
    connect(host: "unknown.invalid")
  end

  fails "reset in mid-result" do
    client = connect(port: Proxies.cut(server.port, after: 5_000), reconnect_attempts: 0)
    client.echo("x" * 100_000)
  ensure
    client&.close
  end

  fails "server restarted" do
    client = connect(reconnect_attempts: 0)
    server.restart
    client.ping
  ensure
    client&.close
  end

  fails "read timeout" do
    client = connect(read_timeout: 0.1, port: Proxies.late(server.port, 1.0))
  ensure
    client&.close
  end

  private

  # When all are subscribed, and 100 ms later.
  def publish(client, count)
    sleep 0.005 until client.pubsub("channels").size == count
    sleep 0.05
    count.times { |i| client.publish("channel#{i}", "hello") }
  end

  def received(client, channel)
    client.subscribe(channel) { |on| on.message { |_, text| return text } }
  end

  def connect(port: server.port, **options)
    Redis.new(port: port, driver: :ruby, timeout: 5, **options).tap(&:ping)
  end

  def late = Proxies.late(server.port)
end

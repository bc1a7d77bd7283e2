# frozen_string_literal: true

require_relative "../support/transparency"
require "redis-client"

# redis-client with its own driver, in Ruby: it waits by itself.
class RedisClientTest < Transparency
  library "redis-client", group: "Redis and memcached", gems: %w[redis-client],
          server: -> { Databases.redis },
          against: -> { "Redis #{`redis-server --version`[/v=(\S+)/, 1]}" }

  waits "a blocking command" do
    clients = together { connect }
    assert_equal [nil], measure { |i| clients[i].call("BLPOP", "none#{i}", 0.1) }.uniq
  ensure
    clients&.each(&:close)
  end

  waits "a pipeline" do
    clients = together { connect(port: late) }
    values = measure { |i| clients[i].pipelined { |p| 3.times { |n| p.call("ECHO", n) } } }
    assert_equal [%w[0 1 2]], values.uniq
  ensure
    clients&.each(&:close)
  end

  waits "connect and a command" do
    clients = measure(delay: 0.2) { connect(port: late) } # HELLO and PING
  ensure
    clients&.each(&:close)
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    clients = measure(delay: 0.3) { connect(host: name) }
  ensure
    clients&.each(&:close)
  end

  waits "connect with TLS" do
    clients = measure(count: 25, delay: 0.3) { connect(port: late(tls_server), **tls) }
  ensure
    clients&.each(&:close)
  end

  waits "a blocking command with TLS" do
    clients = together { connect(port: tls_server.port, **tls) }
    assert_equal [nil], measure { |i| clients[i].call("BLPOP", "none#{i}", 0.1) }.uniq
  ensure
    clients&.each(&:close)
  end

  fails "wrong password" do
    connect(username: "nobody", password: "wrong")
  end

  fails "refused" do
    connect(port: Proxies.nobody)
  end

  fails "unknown host" do
    connect(host: "unknown.invalid")
  end

  fails "wrong CA" do
    connect(port: tls_server.port, ssl: true)
  end

  fails "reset in mid-result" do
    client = connect(port: Proxies.cut(server.port, after: 5_000), reconnect_attempts: 0)
    client.call("ECHO", "x" * 100_000)
  ensure
    client&.close
  end

  fails "server restarted" do
    client = connect(reconnect_attempts: 0)
    server.restart
    client.call("PING")
  ensure
    client&.close
  end

  fails "read timeout" do
    client = connect(read_timeout: 1) # also of the greeting; to connect may take longer
    client.blocking_call(0.1, "BLPOP", "none", 0)
  ensure
    client&.close
  end

  fails "read timeout with TLS" do
    client = connect(port: tls_server.port, read_timeout: 1, **tls)
    client.blocking_call(0.1, "BLPOP", "none", 0)
  ensure
    client&.close
  end

  def test_it_goes_on_after_the_server_has_restarted
    NB.run do
      client = connect(reconnect_attempts: 1)
      server.restart
      assert_equal "PONG", client.call("PING")
      client.close
    end
  end

  private

  def connect(port: server.port, **options)
    client = RedisClient.config(port: port, timeout: 5, driver: :ruby, **options).new_client
    client.tap { assert_equal "PONG", client.call("PING") }
  end

  def late(place = server) = Proxies.late(place.port)
  def tls_server = Databases.redis_tls
  def tls = { ssl: true, ssl_params: { ca_file: "#{tls_server.folder}/certificate.pem" } }
end

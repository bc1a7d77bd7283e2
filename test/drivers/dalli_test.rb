# frozen_string_literal: true

require_relative "../support/transparency"
require "dalli"

# dalli. A client serves one fiber at a time (it has a Monitor), so many fibers take many clients,
# or a pool.
class DalliTest < Transparency
  library "dalli", group: "Redis and memcached", gems: %w[dalli],
          server: -> { Databases.memcached },
          against: -> { `memcached --version`.strip }

  waits "set and get" do
    clients = together { connect(late) }
    values = measure(delay: 0.2) { |i| clients[i].set("k#{i}", i) && clients[i].get("k#{i}") }
    assert_equal (0...50).to_a, values
  ensure
    clients&.each(&:close)
  end

  waits "get_multi" do
    clients = together { |i| connect(late).tap { |one| one.set("m#{i}", "v") } }
    values = measure { |i| clients[i].get_multi("m#{i}", "none") }
    assert_equal ["v"], values.flat_map(&:values).uniq
  ensure
    clients&.each(&:close)
  end

  waits "connect and a command" do
    clients = measure(delay: 0.2) { connect(late) } # version, get
  ensure
    clients&.each(&:close)
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    clients = measure(delay: 0.3) { connect(server.port, host: name) }
  ensure
    clients&.each(&:close)
  end

  fails "refused" do
    connect(Proxies.nobody)
  end

  fails "unknown host" do
    connect(server.port, host: "unknown.invalid")
  end

  fails "reset in mid-result" do
    connect(server.port).tap { |one| one.set("big", "x" * 100_000, nil, raw: true) }.close
    client = connect(Proxies.cut(server.port, after: 5_000))
    client.get("big")
  ensure
    client&.close
  end

  fails "read timeout", ruby: ">= 3.3" do # an older dalli takes it for a miss
    client = connect(Proxies.late(server.port, 1.0), socket_timeout: 0.1)
  ensure
    client&.close
  end

  def test_it_goes_on_after_the_server_has_restarted
    NB.run do
      client = connect(server.port, down_retry_delay: 0, socket_failure_delay: 0.01)
      server.restart
      assert client.set("again", 1)
      client.close
    end
  end

  # dalli alone would read the answer to its handshake as the first value.
  def test_a_timeout_while_it_connects_leaves_no_answer_behind
    NB.run do
      values = %w[a b c].to_h { |key| [key, "value of #{key}"] }
      connect(server.port).tap { |one| values.each { |key, value| one.set(key, value) } }.close
      client = connect(late, ask: false)
      assert_raises(Timeout::Error) { Timeout.timeout(0.05) { client.get("a") } }
      assert_equal values, values.keys.to_h { |key| [key, client.get(key)] }
      client.close
    end
  end

  private

  def connect(port, host: "127.0.0.1", ask: true, **options)
    Dalli.logger = Logger.new(File::NULL)
    client = Dalli::Client.new("#{host}:#{port}", socket_timeout: 5, protocol: :meta, **options)
    client.get("none") if ask
    client
  end

  def late = Proxies.late(server.port)
end

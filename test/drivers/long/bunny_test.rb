# frozen_string_literal: true

require_relative "../../support/rabbitmq"
require_relative "../../support/transparency"
require "bunny"

# bunny. It reads in a thread of its own, one per connection, and calls consumers in others; who
# waits for an answer waits in the loop.
class BunnyTest < Transparency
  library "bunny", group: "Mail, SSH, messages", gems: %w[bunny amq-protocol],
          server: -> { RabbitMQ.fetch },
          against: -> { "RabbitMQ #{`dpkg-query -W -f '${Version}' rabbitmq-server`[/[\d.]+/]}" }

  waits "publish with a confirm" do
    connection = connect(Proxies.late(server.port))
    channels = together(20) { connection.create_channel.tap(&:confirm_select) }
    confirmed = measure(count: 20) { |i| publish(channels[i], "none") }
    assert_equal [true], confirmed.uniq
  ensure
    connection&.close
  end

  waits "declare a queue, publish and get" do
    connection = connect(Proxies.late(server.port))
    channels = together(20) { connection.create_channel }
    texts = measure(count: 20, delay: 0.2) { |i| through(channels[i], "queue#{i}") }
    assert_equal ["hello"], texts.uniq
  ensure
    connection&.close
  end

  waits "connect" do
    connections = measure(count: 5, delay: 0.3) { connect(Proxies.late(server.port)) }
  ensure
    connections&.each(&:close)
  end

  fails "refused" do
    connect(Proxies.nobody)
  end

  fails "unknown host" do
    connect(server.port, host: "unknown.invalid")
  end

  fails "no such queue" do
    connection = connect(server.port)
    connection.create_channel.queue("none", passive: true)
  ensure
    connection&.close
  end

  def closes? = false

  private

  def publish(channel, key)
    channel.default_exchange.publish("hello", routing_key: key)
    channel.wait_for_confirms
  end

  def through(channel, name)
    queue = channel.queue(name, exclusive: true)
    queue.publish("hello")
    queue.pop.last
  end

  def connect(port, host: "127.0.0.1")
    Bunny.new(host: host, port: port, automatically_recover: false, log_level: :fatal,
              recover_from_connection_close: false, connection_timeout: 5).start
  end
end

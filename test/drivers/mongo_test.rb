# frozen_string_literal: true

require_relative "../support/transparency"
require "mongo"

Mongo::Logger.logger.level = Logger::FATAL

# The mongo gem: one client, one pool of connections for all fibers. On Ruby 3.1 it waits by
# IO.select, which the loop's own repair makes wait.
class MongoTest < Transparency
  PROGRAM = File.expand_path("../support/mongo_server.rb", __dir__)

  library "mongo", group: "Databases", gems: %w[mongo bson],
          server: -> { Servers.fetch("mongo") { |port, _| [RbConfig.ruby, PROGRAM, port.to_s] } },
          against: -> { "our own server that speaks OP_MSG (Debian has no MongoDB)" }

  waits "ping" do
    with_client do |client|
      together { client.database.command(ping: 1) }
      assert_equal [1.0], measure { client.database.command(ping: 1).first["ok"] }.uniq
    end
  end

  waits "find with getMore" do
    with_client do |client|
      things = client[:things]
      things.insert_many(Array.new(6) { |n| { n: n } })
      together { client.database.command(ping: 1) }
      found = measure(delay: 0.3) { things.find({}, batch_size: 2).map { |one| one["n"] } }
      assert_equal [(0..5).to_a], found.uniq
      things.delete_many({})
    end
  end

  waits "insert, update, delete" do
    with_client do |client|
      together { client.database.command(ping: 1) }
      counts = measure(delay: 0.3) { |i| changes(client[:changes], i) }
      assert_equal [[1, 1, 1]], counts.uniq
    end
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    # It is asked for twice, one after the other.
    clients = measure(count: 10, delay: 0.6) { connect(server.port, host: name) }
  ensure
    clients&.each(&:close)
  end

  fails "refused" do
    connect(Proxies.nobody, server_selection_timeout: 0.3)
  end

  fails "no such command" do
    with_client { |client| client.database.command(nonsense: 1) }
  end

  fails "read timeout" do
    client = connect(Proxies.late(server.port, 0.3), socket_timeout: 0.1)
  ensure
    client&.close
  end

  def test_it_goes_on_after_the_server_has_restarted
    NB.run do
      client = connect(server.port)
      Servers.restart(server)
      again = Array.new(3) { outcome { client.database.command(ping: 1).first["ok"] } }
      assert_includes again, 1.0
      client.close
    end
  end

  def closes? = false

  # Each client has threads of Ruby's that watch the server and share Ruby's lock with the loop.
  # (Where a lookup stops the loop, it does so for 0.3 s.)
  def standstill = 0.1

  private

  def changes(collection, number)
    [collection.insert_one(n: number).n,
     collection.update_one({ n: number }, { "$set" => { m: 1 } }).modified_count,
     collection.delete_one(n: number).deleted_count]
  end

  def with_client
    client = connect(Proxies.late(server.port))
    yield client
  ensure
    client&.close
  end

  def connect(port, host: "127.0.0.1", **options)
    client = Mongo::Client.new(["#{host}:#{port}"], connect: :direct, max_pool_size: 50,
                               max_connecting: 50, server_selection_timeout: 3, **options)
    client.tap { client.database.command(ping: 1) }
  end
end

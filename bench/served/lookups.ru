# frozen_string_literal: true

# One page that looks three things up in a store of 100,000, as the articles' applications did. The
# environment says which store, where, and how many connections are shared.

require "json"
require_relative "pool"

# Of the same length, as ab wants answers.
NUMBERS = (100_001..200_000).freeze
PORT = Integer(ENV.fetch("BENCH_PORT"))
POOL = Integer(ENV.fetch("BENCH_POOL"))

MARIADB = { host: "127.0.0.1", port: PORT, username: "nb", password: "secret",
            database: "nb" }.freeze
SQL = "select name from things where id = "

# Looks names up by their numbers.
FIND =
  case ENV.fetch("BENCH_STORE")
  when "mysql2"
    require "mysql2"
    pool = Pool.new(POOL) { Mysql2::Client.new(MARIADB) }
    lambda do |ids|
      pool.with { |client| ids.map { |id| client.query("#{SQL}#{id}").first.fetch("name") } }
    end
  when "trilogy"
    require "trilogy"
    pool = Pool.new(POOL) { Trilogy.new(**MARIADB) }
    lambda do |ids|
      pool.with { |client| ids.map { |id| client.query("#{SQL}#{id}").rows.first.first } }
    end
  when "redis"
    require "redis-client"
    pool = Pool.new(POOL) { RedisClient.new(port: PORT).tap { |client| client.call("PING") } }
    lambda do |ids|
      pool.with { |client| ids.map { |id| client.call("GET", "thing:#{id}") } }
    end
  when "mongo"
    require "mongo"
    Mongo::Logger.logger.level = Logger::FATAL
    client = Mongo::Client.new(["127.0.0.1:#{PORT}"], database: "nb", max_pool_size: POOL,
                                                      connect: :direct, wait_queue_timeout: 60)
    lambda do |ids|
      ids.map { |id| client[:things].find(_id: id).first["name"] }
    end
  end

# What the garbage collector has done so far.
COUNTED = %i[count time total_allocated_objects].freeze

def page
  ids = Array.new(3) { rand(NUMBERS) }
  JSON.generate(ids: ids, names: FIND.call(ids))
end

# The application is asked before others are, with "/hello", whether it runs.
run(lambda do |env|
  body =
    case env["PATH_INFO"]
    when "/hello" then "Hello"
    when "/gc" then JSON.generate(GC.stat.slice(*COUNTED))
    else page
    end
  [200, { "content-type" => "application/json", "content-length" => body.bytesize.to_s }, [body]]
end)

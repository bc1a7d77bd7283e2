# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"
require_relative "../support/databases"

# Libraries that work in any Ractor still do so when NeverBlock is loaded, and has run a loop.
class RactorDriversTest < Minitest::Test
  # What the main Ractor does first, what the other one does, and what that gives.
  WORK = {
    "excon" => [<<~'RUBY', 'Excon.get("http://127.0.0.1:#{port}/").body', "ok"],
      [Excon.defaults, Excon.defaults[:middlewares], Excon::VALID_CONNECTION_KEYS,
       Excon::VALID_REQUEST_KEYS].each(&:freeze)
    RUBY
    "httpx" => ["", 'HTTPX.get("http://127.0.0.1:#{port}/").to_s', "ok"],
    "net/http" => ["", <<~'RUBY', "ok"], # its open_timeout does not
      Net::HTTP.new("127.0.0.1", port).tap { |http| http.open_timeout = nil }.get("/").body
    RUBY
    "redis-client" => ["", <<~'RUBY', ["PONG", ["PONG"]]],
      redis = RedisClient.new(port: Integer(ENV["REDIS"]))
      [redis.call("PING"), redis.multi(watch: ["a"]) { |commands| commands.call("PING") }]
    RUBY
    "pg" => ["", 'PG.connect(ENV["PG"]).exec("SELECT 1").values', [["1"]]],
    "trilogy" => ["options = {host: '127.0.0.1', port: Integer(ENV['MARIADB']), username: 'root'}",
                  'Trilogy.new(options).query("SELECT 1").rows', [[1]]],
    "bcrypt" => ["", 'BCrypt::Password.create("a", cost: 4).to_s.size', 60],
    "open3" => ["", 'Open3.capture2e("echo", "a").first', "a\n"]
  }.freeze
  WORLDS = { "without" => "", "with" => "require 'neverblock'; NB.run { sleep 0.001 }" }.freeze

  PROGRAM = <<~'RUBY'
    require "socket"
    server = TCPServer.new("127.0.0.1", 0)
    Thread.new do
      client = server.accept
      client.readpartial(1000)
      client.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
      client.close
    end
    options = nil
    %s
    ractor = Ractor.new(server.local_address.ip_port, options) { |port, options| %s }
    print Marshal.dump(ractor.respond_to?(:value) ? ractor.value : ractor.take)
  RUBY

  WORK.each do |library, (first, work, value)|
    define_method("test_#{library.tr("-/", "_")}") do
      skip "httpx works in Ractors from Ruby 3.3 on" if library == "httpx" && RUBY_VERSION < "3.3"
      WORLDS.each do |world, load|
        assert_equal value, run_alone(library, load, format(PROGRAM, first, work)), world
      end
    end
  end

  private

  def run_alone(library, *program)
    command = [RbConfig.ruby, "-W0", "-Ilib", "-rset", "-r#{library}", "-e", program.join("\n")]
    out, errors, = Open3.capture3(places, *command, binmode: true)
    assert_empty errors
    Marshal.load(out)
  end

  def places
    { "REDIS" => Databases.redis.port.to_s, "PG" => Databases.postgresql.url,
      "MARIADB" => Databases.mariadb.port.to_s }
  end
end

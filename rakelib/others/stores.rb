# frozen_string_literal: true

require "yaml"
require_relative "../../test/support/databases"
require_relative "postgresql"

module Others
  # For {Surroundings}: databases and caches, where the suites look for them.
  module Stores
    private

    # suo's tests know one port of memcached.
    def suo
      place = "127.0.0.1:#{Databases.memcached.port}"
      change("test/client_test.rb", /127\.0\.0\.1:\d{4,5}/, place)
      default_redis.merge("MEMCACHE_SERVERS" => place)
    end

    # mini_sql's tests find two databases, on MariaDB with a user that they know.
    def mini_sql
      mysql = database_test("test_mini_sql")
      postgresql = PostgreSQL.renew("test_mini_sql")
      change("test/test_helper.rb", 'username: "root"', "username: #{mysql.user.inspect}")
      { "MINI_SQL_MYSQL_HOST" => mysql.host, "MINI_SQL_MYSQL_PORT" => mysql.port.to_s,
        "MINI_SQL_MYSQL_PASSWORD" => mysql.password,
        "MINI_SQL_PG_HOST" => postgresql["host"], "MINI_SQL_PG_PORT" => postgresql["port"].to_s,
        "MINI_SQL_PG_USER" => postgresql["username"],
        "MINI_SQL_PG_PASSWORD" => postgresql["password"] }
    end

    def stoplight = { "STOPLIGHT_REDIS_URL" => Databases.redis.url }

    # resque-scheduler's tests know one port. It loads redis-rb's errors before redis-rb.
    def resque_scheduler
      change("lib/**/*.rb", "require 'redis/errors'", "require 'redis'")
      change("test/test_helper.rb", /^restore_devnull_logfile\n\z/,
             "\\0Resque.redis = ENV.fetch(\"REDIS_URL\")\n")
      default_redis
    end

    # paper_trail's tests ask for one of its Gemfiles, and for an RSpec of Rails before 8.
    def paper_trail
      place = PostgreSQL.renew("paper_trail_test")
      change("spec/spec_helper.rb", /^unless ENV\["BUNDLE_GEMFILE"\].*?^end$/m, "")
      change("spec/spec_helper.rb", /^.*fixture_path =.*$/, "")
      settings = place.merge("adapter" => "postgresql", "database" => "paper_trail_test")
      File.write("#{@folder}/spec/dummy_app/config/database.yml", YAML.dump("test" => settings))
      { "DB" => "postgres" }
    end
  end
end

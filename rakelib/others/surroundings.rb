# frozen_string_literal: true

require "digest"
require "etc"
require "fileutils"
require "rbconfig"
require "tmpdir"
require "yaml"
require_relative "../../test/support/databases"
require_relative "active_record"
require_relative "applications"
require_relative "broker"
require_relative "directory"
require_relative "edits"
require_relative "postgresql"
require_relative "redis_places"
require_relative "stores"
require_relative "test_gems"

module Others
  # What a suite finds around it: real servers of our own tests, and the settings that lead there.
  class Surroundings
    include Edits
    include RedisPlaces
    include Stores

    BIN = File.expand_path("tmp/others/bin")

    # @param server [Symbol, nil] a private method of this class
    # @param folder [String] of the project in the unpacked source
    def initialize(server, folder)
      @server = server
      @folder = folder
    end

    # @return [Hash] for the process that runs the tests; PATH: the folder that it has first
    def environment = @server ? send(@server) : {}

    # Ends what was started.
    def self.clear
      Servers.stop_all
      Dir["#{Dir.tmpdir}/nb-pg-#{Process.pid}-*/*/data"].each { |data| end_postgresql(data) }
    end

    # The one that pg's tests have started leaves the process group of the tests.
    def self.end_postgresql(data)
      system("#{BIN}/pg/pg_ctl", "-D", data, "-m", "immediate", "stop", out: File::NULL,
                                                                      err: File::NULL)
      FileUtils.rm_rf(File.expand_path("../..", data))
    end

    private

    # Its tests start memcached themselves, which refuses to run as root unless told to.
    def memcached
      user = "-u root" if Process.uid.zero?
      program("#{BIN}/memcached", "exec #{Databases.program("memcached")} #{user} \"$@\"")
      { "PATH" => BIN }
    end

    def program(path, line)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, "#!/bin/sh\n#{line}\n", perm: 0o755)
    end

    # Some tests name the database `test`.
    def database_test(name = "test")
      place = Databases.mariadb
      Databases.run("mariadb", "--no-defaults", "--host=#{place.host}", "--port=#{place.port}",
                    "--user=#{place.user}", "--password=#{place.password}",
                    input: "CREATE DATABASE IF NOT EXISTS #{name}")
      place
    end

    # trilogy asks the environment.
    def mysql
      place = database_test
      { "MYSQL_HOST" => place.host, "MYSQL_PORT" => place.port.to_s, "MYSQL_USER" => place.user,
        "MYSQL_PASS" => place.password }
    end

    # mysql2 reads a file.
    def mariadb
      place = database_test
      person = place.options.merge(database: "test").transform_keys(&:to_s)
      settings = { "root" => person, "user" => person.dup } # YAML would write the same one once
      File.write("#{@folder}/spec/configuration.yml", YAML.dump(settings))
      {}
    end

    %w[postgresql mysql2 trilogy].each do |adapter|
      define_method(:"active_record_#{adapter}") { ActiveRecord.environment(adapter, @folder) }
    end

    # Its own adapter, which has threads.
    def active_job = { "AJ_ADAPTER" => "async" }

    # Its caches.
    def active_support
      { "MEMCACHE_SERVERS" => "127.0.0.1:#{Databases.memcached.port}",
        "REDIS_URL" => Databases.redis.url }
    end

    # Its tests of PostgreSQL read Active Record's file.
    def action_cable
      ActiveRecord.environment("postgresql", "#{@folder}/../activerecord")
        .merge("REDIS_URL" => Databases.redis.url)
    end

    # In memory.
    def active_record_sqlite3 = { "ARCONN" => "sqlite3_mem" }

    def postgresql = { "SEQUEL_INTEGRATION_URL" => Databases.postgresql.url }

    # pg's tests start PostgreSQL themselves, which doesn't run as root. They put the keys of the
    # server and of the client in one folder; each must be its owner's.
    def own_postgresql
      folder = "#{BIN}/pg"
      program("#{folder}/pg_config", "echo #{folder}")
      %w[psql createdb].each { |name| link(folder, name, "") }
      link(folder, "initdb", "-U #{Etc.getpwuid.name}")
      link(folder, "pg_ctl", "")
      place = Dir.mktmpdir("nb-pg-#{Process.pid}-")
      File.chmod(0o755, place)
      { "PATH" => folder, "RUBY_PG_TEST_DIR" => place,
        "USER" => Etc.getpwuid.name, "PGPORT" => Ports.free.to_s }
    end

    def link(folder, name, more)
      command = [Databases.postgresql_program(name)]
      command = Databases.as("postgres", *command) if %w[initdb pg_ctl].include?(name)
      own = "chown -R postgres $RUBY_PG_TEST_DIR; chown -f root $RUBY_PG_TEST_DIR/*/*/*client*"
      program("#{folder}/#{name}",
              "#{own if command.size > 1}\nexec #{command.join(" ")} #{more} \"$@\"")
    end

    # httpx's tests ask a service of the Internet; here nobody answers.
    def nobody
      { "HTTPBIN_HOST" => "127.0.0.1:1", "HTTPBIN_NO_PROXY_HOST" => "http://127.0.0.1:1" }
    end

    Applications::DATABASES.each_key do |name|
      define_method(name) { Applications.environment(name, @folder) }
    end

    # Its tests know one port.
    def unique_jobs
      change("spec/**/*.rb", /(?<=port: )\d{4,5}/, Databases.redis.port.to_s)
      { "REDIS_URL" => "127.0.0.1:#{Databases.redis.port}" }
    end

    # Its tests know the name of the database and of its user. It requires GoodJob, which asks for
    # more of Rails.
    def job_iteration
      place = database_test
      change("lib/job-iteration/interruption_adapters/good_job_adapter.rb", /require "good_job"/,
             "require \"active_model\"\n\\0")
      change("test/test_helper.rb", /^connection_config = \{.*?\}$/m,
             "connection_config = #{place.options.merge(adapter: "mysql2", database: "test")}")
      default_redis
    end

    # que would also run without Rails.
    def que
      PostgreSQL.renew("que_test")
      { "DATABASE_URL" => Databases.postgresql.url.sub(%r{[^/]*\z}, "que_test"),
        "USE_RAILS" => "true" }
    end

    # bunny's tests want Bundler to load what they use.
    def bunny
      Broker.fetch
      change("spec/spec_helper.rb", /^Bundler\.require.*/,
             "require \"rabbitmq/http/client\"\nrequire \"sorted_set\"\n")
      { "RUNS" => "2" }
    end

    def amqp = Broker.fetch && { "TEST_AMQP_PORT" => Broker::AMQP.to_s }

    # delayed_job on PostgreSQL.
    def delayed_job
      settings = PostgreSQL.renew("delayed_job_test")
      place = settings.merge("adapter" => "postgresql", "database" => "delayed_job_test")
      File.write("#{@folder}/spec/database.yml", YAML.dump("postgresql" => place))
      { "ADAPTER" => "postgresql" }
    end

    def message_bus = default_redis.merge("REDISURL" => Databases.redis.url)

    def message_bus_pg
      place = PostgreSQL.renew("message_bus_test")
      { "MESSAGE_BUS_BACKEND" => "postgres", "PGHOST" => place["host"],
        "PGPORT" => place["port"].to_s, "PGUSER" => place["username"],
        "PGPASSWORD" => place["password"], "PGDATABASE" => "message_bus_test" }
    end

    def queue_classic = { "DATABASE_URL" => postgresql_database("queue_classic_test") }

    # with_advisory_lock's tests find three databases, with their tables.
    def advisory_lock
      mysql = database_test.url.sub(%r{[^/]*\z}, "test")
      urls = { "DATABASE_URL_PG" => postgresql_database("advisory_lock_test"),
               "DATABASE_URL_MYSQL" => mysql,
               "DATABASE_URL_TRILOGY" => mysql.sub("mysql2", "trilogy") }
      names = { "primary" => "", "secondary" => "secondary_", "trilogy" => "trilogy_" }
      program = names.map do |name, part|
        "ActiveRecord::Base.establish_connection(:#{name}); load \"./db/#{part}schema.rb\""
      end
      system(TestGems.environment.merge(urls, "RAILS_ENV" => "test"), RbConfig.ruby, "-W0",
             "-I#{@folder}/lib", "-r#{__dir__}/without_bundler.rb", "-r./config/environment", "-e",
             program.join("\n"), chdir: "#{@folder}/test/dummy", exception: true)
      urls
    end

    # @return [String] the address of a new one
    def postgresql_database(name)
      PostgreSQL.renew(name)
      Databases.postgresql.url.sub(%r{[^/]*\z}, name)
    end

    # stomp's own tests know of RabbitMQ, and read a backtrace of Ruby before 3.4.
    def stomp
      change("test/test_helper.rb", "in `(", "in [`'](?:.*#)?(")
      { "STOMP_HOST" => "127.0.0.1", "STOMP_PORT" => Broker.fetch.port.to_s, "STOMP_RABBIT" => "y",
        "STOMP_DOTQUEUE" => "y", "STOMP_NOWILD" => "y", "STOMP_TEST11p" => "1.2" }
    end

    # beaneater's tests know one port, here perhaps that of an earlier run, and minitest by its old
    # name.
    def beanstalkd
      place = Servers.fetch("beanstalkd") { |port, _| %W[beanstalkd -l 127.0.0.1 -p #{port}] }
      change("{test/*,lib/beaneater/connection}.rb",
             /(?<=127\.0\.0\.1:|assert_equal |DEFAULT_PORT = )\d{5}\b/, place.port.to_s)
      change("test/*.rb", /MiniTest::(Unit::TestCase|Test)\b/, "Minitest::Test")
      {}
    end

    # Chromium, which root starts only without its sandbox.
    def browser
      program("#{BIN}/chromium", "exec /usr/bin/chromium --no-sandbox \"$@\"")
      { "BROWSER_PATH" => "#{BIN}/chromium" }
    end

    # shoryuken's tests raise at a warning of simplecov.
    def no_coverage = { "SIMPLECOV_DISABLED" => "1" }

    def slapd = Directory.environment(@folder)
  end
end

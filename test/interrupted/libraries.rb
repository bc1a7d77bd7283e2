# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement each

require_relative "sql_sessions"
require_relative "redis_sessions"
require_relative "lock_gate"

# The libraries of the matrix, each with a connection of its own per cell, in its own pool.
module Libraries
  # What a library is, and how a session of it is opened.
  Library = Struct.new(:kind, :adapter, :statements, :opened) do
    def ours? = opened == Bare || opened < RedisSession
    def server? = kind != :sqlite

    # Within a block that the application may rescue and go on.
    def rescued?(statement) = !(%i[commit rollback] + (kind == :redis ? %i[begin] : [])).include?(statement)

    # Whether EXEC or the like may have been carried out where it raises.
    # redis-client takes the rest of an interrupted answer for that of its next command: within
    # `multi(watch:)`, EXEC is carried out and then a NoMethodError raised.
    def uncertain?(statement)
      return true if statement == :commit || (kind == :redis && statement == :pipeline)

      opened == RedisClients && statement == :query
    end

    def place
      case kind
      when :redis then Databases.redis
      else adapter == "postgresql" ? Databases.postgresql : Databases.mariadb
      end
    end
  end

  SQL = %i[begin write query savepoint release commit rollback].freeze

  COPY = %i[copy copied].freeze
  REDIS = %i[begin query commit rollback pipeline].freeze
  MYSQL = %w[mysql2 trilogy].freeze
  ALL = {
    "activerecord pg" => Library.new(:sql, "postgresql", SQL + COPY + %i[prepared], Record),
    **MYSQL.to_h { |adapter| ["activerecord #{adapter}", Library.new(:sql, adapter, SQL, Record)] },
    "activerecord sqlite3" => Library.new(:sqlite, "sqlite3", %i[write], Record),
    "sequel pg" => Library.new(:sql, "postgresql", SQL + COPY, Sequels),
    **MYSQL.to_h { |adapter| ["sequel #{adapter}", Library.new(:sql, adapter, SQL, Sequels)] },
    "sequel sqlite3" => Library.new(:sqlite, "sqlite3", %i[begin write commit], Sequels),
    "pg" => Library.new(:sql, "postgresql", SQL + COPY + %i[pipeline], Bare),
    **MYSQL.to_h { |adapter| [adapter, Library.new(:sql, adapter, SQL, Bare)] },
    "sqlite3" => Library.new(:sqlite, "sqlite3", %i[begin write commit], Bare),
    "redis-client" => Library.new(:redis, "redis", REDIS, RedisClients),
    "redis" => Library.new(:redis, "redis", REDIS, Redises)
  }.freeze

  class << self
    def open(cell, port) = ALL.fetch(cell.client).opened.new(cell, port)

    # What holds its statement.
    def hold(cell, seconds)
      library = ALL.fetch(cell.client)
      library.server? ? HoldingProxy.new(library.place.port, seconds) : LockGate.new(cell.statement, seconds)
    end

    # Has the server end the connection that comes from this port.
    def kill(cell, port)
      library = ALL.fetch(cell.client)
      return redis { |other| other.call("CLIENT", "KILL", "ADDR", "127.0.0.1:#{port}") } if library.kind == :redis

      if library.adapter == "postgresql"
        watch(:postgresql) { |db| db.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port = #{port}") }
      else
        watch(:mariadb) do |db|
          id = db.query("SELECT id FROM information_schema.processlist WHERE host LIKE '%:#{port}'", as: :array).first
          db.query("KILL #{id.first}") if id
        end
      end
    end

    # Ends the server as its administrator does, which rolls back and disconnects, and starts it anew.
    def restart(cell)
      place = ALL.fetch(cell.client).place
      place.restart
      Databases.wait_for_postgresql(place.port) if place.scheme == "postgresql"
    end

    def options(adapter, port)
      return { database: port, timeout: 10_000 } if adapter == "sqlite3"

      place = adapter == "postgresql" ? Databases.postgresql : Databases.mariadb
      tls = adapter == "postgresql" ? { sslmode: "disable" } : {}
      { host: "127.0.0.1", port: port, username: place.user, password: place.password, database: place.database, **tls }
    end

    # An empty table in each database.
    def prepare
      require "pg"
      require "mysql2"
      require "trilogy"
      require "sequel"
      require "redis-client"
      require "redis"
      require "sqlite3"
      require "active_record"
      watch(:postgresql) { |db| db.exec("DROP TABLE IF EXISTS interrupted_matrix; CREATE TABLE interrupted_matrix (cell int, n int)") }
      watch(:mariadb) do |db|
        db.query("DROP TABLE IF EXISTS interrupted_matrix")
        db.query("CREATE TABLE interrupted_matrix (cell int, n int)")
      end
    end

    # What the database holds, by a connection of its own.
    def rows(cell, all: false)
      library = ALL.fetch(cell.client)
      return redis { |db| [1, 4, 5].select { |row| db.call("EXISTS", "(#{cell.number}, #{row})") == 1 } } if library.kind == :redis

      sql = "SELECT n FROM interrupted_matrix WHERE cell = #{cell.number}#{" AND n < 99" unless all}"
      case library.adapter
      when "postgresql" then watch(:postgresql) { |db| db.exec(sql).column_values(0).map(&:to_i) }
      when "sqlite3" then sqlite(cell.place) { |db| db.execute(sql).map(&:first) }
      else watch(:mariadb) { |db| db.query(sql, as: :array).map(&:first) }
      end
    end

    def redis
      redis = RedisClient.new(port: Databases.redis.port)
      yield redis
    ensure
      redis&.close
    end

    private

    def sqlite(path)
      db = SQLite3::Database.new(path)
      db.busy_timeout = 500
      yield db
    ensure
      db&.close
    end

    def watch(kind)
      place = Databases.public_send(kind)
      db = kind == :postgresql ? PG.connect(place.url) : Mysql2::Client.new(**place.options)
      yield db
    ensure
      db&.close
    end
  end
end
# rubocop:enable Layout/LineLength

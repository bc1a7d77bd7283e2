# frozen_string_literal: true

require_relative "names"

module NB
  # The database connections of 2008. Each is the driver's own class by its old name: the drivers
  # wait in the loop by themselves now.
  module DB
    autoload :FiberedPostgresConnection, "neverblock/legacy/postgres_connection"
    autoload :FPGconn, "neverblock/legacy/postgres_connection"
    autoload :FPGConn, "neverblock/legacy/postgres_connection"
    autoload :FiberedMysqlConnection, "neverblock/legacy/mysql_connection"
    autoload :FMysql, "neverblock/legacy/mysql_connection"
    autoload :PooledDBConnection, "neverblock/legacy/pooled_db_connection"
  end
end

# frozen_string_literal: true

require_relative "names"

module NB
  # The database connections of 2008. Each is the driver's own class under its old name, because
  # drivers now wait in the loop by themselves.
  module DB
    autoload :FiberedPostgresConnection, "neverblock/legacy/postgres_connection"
    autoload :FPGconn, "neverblock/legacy/postgres_connection"
    autoload :FPGConn, "neverblock/legacy/postgres_connection"
    autoload :FiberedMysqlConnection, "neverblock/legacy/mysql_connection"
    autoload :FMysql, "neverblock/legacy/mysql_connection"
    autoload :PooledDBConnection, "neverblock/legacy/pooled_db_connection"
  end
end

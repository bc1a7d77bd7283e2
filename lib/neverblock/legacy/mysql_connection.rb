# frozen_string_literal: true

require "mysql2"
require_relative "db"

module NB
  module DB
    # Mysql2::Client under its name of 2008, when the driver was mysqlplus. Its results are
    # mysql2's: `each` yields Hashes, or Arrays with `as: :array`.
    class FiberedMysqlConnection < Mysql2::Client
      # The old arguments, in their order.
      ARGUMENTS = %i[host username password database port socket flags].freeze

      # @param arguments [Array] host, user, password, database, port, socket, flags; nil: the
      #   default
      # @return [FiberedMysqlConnection]
      # @raise [Mysql2::Error]
      # @scheduling may wait
      def self.real_connect(*arguments)
        new(**ARGUMENTS.zip(arguments).to_h.compact)
      end

      # (see .real_connect)
      def self.connect(*arguments) = real_connect(*arguments)

      # @return [Mysql2::Result, nil]
      # @raise [Mysql2::Error]
      # @scheduling may wait
      def exec(...) = query(...)
    end

    # Its short name.
    FMysql = FiberedMysqlConnection
  end
end

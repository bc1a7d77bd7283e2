# frozen_string_literal: true

module Bench
  # A database for the cells, the same that the tests of drivers start, in a folder of its own.
  # The database is "nb"; user "nb" has the password "secret", PostgreSQL's "postgres" needs none.
  class Database
    KINDS = %i[postgresql mariadb redis].freeze
    # Cells that are compared hold theirs at the same time.
    CONNECTIONS = 600
    private_constant :CONNECTIONS

    # @return [Integer]
    attr_reader :port

    # @param kind [Symbol] of {KINDS}
    # @raise [Bench::Error] when the machine has none, or it does not start
    def initialize(kind)
      require File.join(ROOT, "test", "support", "databases")
      raise Error, "no #{kind} on this machine: run bin/setup" unless Databases.there?(kind)

      @kind = kind
      options = kind == :redis ? {} : { connections: CONNECTIONS }
      @port = Databases.public_send(kind, **options).port
    rescue SystemCallError, RuntimeError => error
      raise Error, "#{kind} does not start: #{error.message}"
    end

    # @return [void]
    def stop = Servers.stop(@kind.to_s)
  end
end

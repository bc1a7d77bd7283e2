# frozen_string_literal: true

module Bench
  # A database for the cells, the same that the tests of drivers start, in a folder of its own.
  # The database is "nb"; user "nb" has the password "secret", PostgreSQL's "postgres" needs none.
  class Database
    KINDS = %i[postgresql mariadb redis].freeze

    # @return [Integer]
    attr_reader :port

    # @param kind [Symbol] of {KINDS}
    # @raise [Bench::Error] when the machine has none, or it does not start
    def initialize(kind)
      require File.join(ROOT, "test", "support", "databases")
      raise Error, "no #{kind} on this machine: run bin/setup" unless Databases.there?(kind)

      @kind = kind
      @port = Databases.public_send(kind).port
    rescue SystemCallError, RuntimeError => error
      raise Error, "#{kind} does not start: #{error.message}"
    end

    # @return [void]
    def stop = Servers.stop(@kind.to_s)
  end
end

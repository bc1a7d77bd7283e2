# frozen_string_literal: true

require "pg"
require_relative "db"

module NB
  module DB
    # PG::Connection under its name of 2008; a lost connection is reset for the next command.
    class FiberedPostgresConnection < PG::Connection
      # @return [PG::Result]
      # @raise [PG::Error]
      # @scheduling may wait
      def exec(...) = reset_if_lost { super }

      # @return [PG::Result]
      # @raise [PG::Error]
      # @scheduling may wait
      def query(...) = reset_if_lost { super }

      private

      def reset_if_lost
        yield
      rescue PG::Error => error
        begin
          reset if !finished? && status == PG::CONNECTION_BAD
        rescue PG::Error
          nil # still down: the next command finds out
        end
        raise error
      end
    end

    # Its short name.
    FPGconn = FiberedPostgresConnection
    # Its short name in the adapter of 2009.
    FPGConn = FiberedPostgresConnection
  end
end

# frozen_string_literal: true

module NB
  module Drivers
    module Sequel
      # A timeout or a cancel may strike after PostgreSQL has prepared a statement, but before
      # Sequel knows. On that connection Sequel would prepare the statement again, under the same
      # name: this call and each later one would fail. The same if it strikes after PostgreSQL has
      # forgotten a statement whose name Sequel gives to another. In a loop, PostgreSQL is asked
      # first.
      module Prepared
        # Key of the connection's names of statements that may have been prepared.
        DOUBTFUL = :@neverblock_doubtful
        NAME = /\A(?:PREPARE|DEALLOCATE) (.+?)(?= AS |\z)/
        private_constant :DOUBTFUL, :NAME

        # @yield sends
        # @return the block's value
        # @scheduling may wait
        # @thread any
        def log_connection_yield(sql, connection, *)
          return super unless sql.start_with?("PREPARE ", "DEALLOCATE ") &&
                              Sequel.postgresql?(connection)

          name = sql[NAME, 1]
          Prepared.forget(connection, name) if sql.start_with?("P")
          begin
            super
          rescue ::PG::Error
            raise
          rescue Exception # rubocop:disable Lint/RescueException -- also that of a cancel
            Prepared.doubt(connection, name)
            raise
          end
        end

        class << self
          # @return [void]
          # @api private
          def doubt(connection, name)
            return unless Sequel.in_loop?

            names = connection.instance_variable_get(DOUBTFUL) ||
                    connection.instance_variable_set(DOUBTFUL, {})
            names[name] = true
            connection.prepared_statements.delete(name)
          end

          # @return [void]
          # @scheduling waits if there is such a name
          # @api private
          def forget(connection, name)
            names = connection.instance_variable_get(DOUBTFUL)
            return unless names&.key?(name)

            there = connection.exec_params(
              "SELECT 1 FROM pg_prepared_statements WHERE name = $1", [name]
            )
            connection.exec("DEALLOCATE #{connection.quote_ident(name)}") if there.ntuples.positive?
            names.delete(name)
          end
        end
      end
    end
  end
end

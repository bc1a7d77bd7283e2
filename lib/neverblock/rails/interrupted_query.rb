# frozen_string_literal: true

module NB
  module Rails
    # A cancel or a timeout may leave a connection with a query that still runs. In a transaction
    # Rails cancels it, in order to roll back. Outside of one the next who gets the connection would
    # wait for its end: for him it is cancelled first. mysql2 and trilogy close such a connection.
    module InterruptedQuery
      # @return [void]
      # @scheduling never waits
      def self.install
        ActiveSupport.on_load(:active_record_postgresqladapter) do
          set_callback(:checkout, :before) { cancel_any_running_query }
        end
      end
    end
  end
end

# frozen_string_literal: true

module NB
  # Makes a connection usable again whose user left in the middle: by an exception, a timeout, a
  # cancel, a `throw`. The default `tidy:` of {ConnectionPool}. It knows pg, mysql2 and trilogy by
  # what they answer to, and lets all others pass.
  #
  # @api private
  module Tidy
    # PG::PQTRANS_*
    IDLE = 0
    ACTIVE = 1
    IN_TRANSACTION = [2, 3].freeze
    private_constant :IDLE, :ACTIVE, :IN_TRANSACTION

    class << self
      # @return [Boolean] whether it can be used again
      # @raise [StandardError] of the driver: it cannot
      # @scheduling may wait
      def call(connection)
        if connection.respond_to?(:transaction_status)
          postgresql(connection)
        elsif connection.respond_to?(:affected_rows) && connection.respond_to?(:query)
          connection.query("ROLLBACK") # fails where it is lost, or a result is half read
        end
        true
      end

      private

      def postgresql(connection)
        if connection.transaction_status == ACTIVE
          connection.cancel
          connection.discard_results
        end
        connection.exec("ROLLBACK") if IN_TRANSACTION.include?(connection.transaction_status)
        raise "the connection is lost" unless connection.transaction_status == IDLE
      end
    end
  end
end

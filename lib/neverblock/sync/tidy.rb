# frozen_string_literal: true

module NB
  # Makes a connection usable again after its user left in the middle: by an exception, a timeout, a
  # cancel, a `throw`, or with a transaction open. This is the default `tidy:` of {ConnectionPool}.
  # It recognizes pg, mysql2, trilogy and sqlite3 by their methods, and passes all others.
  #
  # @api private
  module Tidy
    # PG::PQTRANS_*
    IDLE = 0
    ACTIVE = 1
    IN_TRANSACTION = [2, 3].freeze
    private_constant :IDLE, :ACTIVE, :IN_TRANSACTION

    @asked = { transaction: {}, unread: {} }

    class << self
      # Registers how to ask connections of a class whether they are in a transaction, or whether a
      # result may be unread.
      #
      # @param type [Class]
      # @param about [Symbol] :transaction or :unread
      # @yieldparam connection [Object]
      # @yieldreturn [Boolean]
      # @return [void]
      def ask(type, about = :transaction, &question) = @asked.fetch(about)[type] = question

      # Whether a transaction is open, as far as the client knows; nothing is sent.
      #
      # @param connection [Object]
      # @return [Boolean, nil] nil: nobody knows how to ask this connection
      # @scheduling never waits
      def in_transaction?(connection)
        if connection.respond_to?(:transaction_status)
          IN_TRANSACTION.include?(connection.transaction_status)
        elsif connection.respond_to?(:in_transaction?) then connection.in_transaction?
        elsif connection.respond_to?(:transaction_active?) then connection.transaction_active?
        else answer(connection, :transaction)
        end
      rescue StandardError
        false # the connection is closed
      end

      # Whether somebody left a transaction open, an unread answer or, with pg, a pipeline.
      #
      # @param connection [Object]
      # @return [Boolean]
      # @scheduling never waits
      def left_open?(connection)
        return busy?(connection) if connection.respond_to?(:transaction_status)

        in_transaction?(connection) || unread?(connection)
      rescue StandardError
        false # the connection is closed
      end

      # Whether the connection is lost without being closed: trilogy only shuts its socket down, and
      # its `check` tells (from 2.8 on).
      #
      # @param connection [Object]
      # @return [Boolean]
      # @raise [StandardError] the driver's own: the connection is lost
      # @scheduling never waits
      def lost?(connection)
        trilogy?(connection) && connection.respond_to?(:check) && !connection.check
      end

      # @return [Boolean] whether the connection can be used again
      # @raise [StandardError] the driver's own: the connection cannot be used again
      # @scheduling may wait
      def call(connection)
        if connection.respond_to?(:transaction_status)
          postgresql(connection)
        elsif connection.respond_to?(:affected_rows) && connection.respond_to?(:query)
          raise "a result is unread" if trilogy?(connection) && connection.more_results_exist?

          connection.query("ROLLBACK") # fails if the connection is lost, or a result half read
        elsif connection.respond_to?(:transaction_active?) && connection.transaction_active?
          connection.rollback
        end
        true
      end

      private

      # @return [Boolean, nil] nil: nobody has registered a question for this connection
      def answer(connection, about)
        _, question = @asked[about].find { |type, _| connection.is_a?(type) }
        question&.call(connection)
      end

      # Trilogy takes whatever comes next for the answer to its next query, such as the rest of the
      # answer before.
      def trilogy?(connection) = connection.respond_to?(:more_results_exist?)

      def unread?(connection)
        return connection.more_results_exist? if trilogy?(connection)

        answer(connection, :unread)
      end

      def postgresql(connection)
        if connection.transaction_status == ACTIVE
          connection.cancel
          connection.discard_results
        end
        connection.exec("ROLLBACK") if IN_TRANSACTION.include?(connection.transaction_status)
        raise "the connection is lost, or in a pipeline" if busy?(connection)
      end

      def busy?(connection)
        connection.transaction_status != IDLE ||
          (connection.respond_to?(:pipeline_status) && !connection.pipeline_status.zero?)
      end
    end
  end
end

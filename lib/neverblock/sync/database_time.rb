# frozen_string_literal: true

module NB
  # Counts the queries that this process has sent to databases and the time they took, by adapter,
  # for `nb_database_…` in `/metrics`. Whoever sends a query reports it here.
  #
  # @api private
  module DatabaseTime
    @rows = {}

    class << self
      # @param adapter [String]
      # @param seconds [Float] the duration of one query
      # @return [void]
      # @thread any
      def count(adapter, seconds)
        row = @rows[adapter] ||= [0, 0.0]
        row[0] += 1 # no thread can come between the read and the write
        row[1] += seconds
      end

      # @return [Hash{String=>Integer}] queries by adapter
      def queries = @rows.transform_values(&:first)

      # @return [Hash{String=>Float}] seconds by adapter
      def seconds = @rows.transform_values(&:last)

      # Starts again at 0, in a forked child.
      #
      # @return [void]
      def forked = @rows.clear
    end
  end
end

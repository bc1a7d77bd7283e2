# frozen_string_literal: true

module NB
  # How many queries this process has sent to databases, and how long they took, by adapter: the
  # `nb_database_…` of `/metrics`. Who sends them tells.
  #
  # @api private
  module DatabaseTime
    @rows = {}

    class << self
      # @param adapter [String]
      # @param seconds [Float] that one query took
      # @return [void]
      # @thread any
      def count(adapter, seconds)
        row = @rows[adapter] ||= [0, 0.0]
        row[0] += 1 # no thread comes between a look and its entry
        row[1] += seconds
      end

      # @return [Hash{String=>Integer}] by adapter
      def queries = @rows.transform_values(&:first)

      # @return [Hash{String=>Float}] by adapter
      def seconds = @rows.transform_values(&:last)

      # In a forked child.
      #
      # @return [void]
      def forked = @rows.clear
    end
  end
end

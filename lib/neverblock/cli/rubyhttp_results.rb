# frozen_string_literal: true

require_relative "../cli"
require_relative "rubyhttp_cell"

module NB
  module CLI
    # Rows written by `nb rubyhttp`, read from its files.
    class RubyhttpResults
      # One row: its file (a Ruby, a machine), site, client and the numbers by column.
      Row = Struct.new(:file, :site, :client, :numbers) do
        # @return [Float, nil] CPU seconds per gigabyte, whatever the elapsed time
        def cpu_per_gb
          kilobytes = numbers["KBytes Transferred"]
          numbers["Total CPU Time"] / (kilobytes * 1024) * 1e9 if kilobytes.positive?
        end

        # @return [Float] as in the study
        def cpu_percent = numbers["% CPU usage"]
      end

      # The column that `nb rubyhttp combine` adds in front of the study's.
      FILE = "File"
      HEADERS = [RubyhttpCell::COLUMNS, [FILE, *RubyhttpCell::COLUMNS]].freeze
      private_constant :FILE, :HEADERS

      # @return [Array<Row>]
      attr_reader :rows

      # @param paths [Array<String>] CSV files of `nb rubyhttp`, combined ones too
      # @raise [UsageError] for a file that cannot be read, or was not written by `nb rubyhttp`
      # @scheduling may wait
      def initialize(paths)
        @rows = paths.flat_map { |path| read(path) }
        raise UsageError, "no rows in #{paths.join(", ")}" if @rows.empty?
      end

      # @return [Array<String>]
      def files = rows.map(&:file).uniq
      # @return [Array<String>]
      def sites = rows.map(&:site).uniq
      # @return [Array<String>]
      def clients = rows.map(&:client).uniq

      # @return [Row, nil]
      def find(file, site, client)
        rows.find { |row| [row.file, row.site, row.client] == [file, site, client] }
      end

      # @return [String] all rows as one CSV file
      def to_csv
        lines = rows.map { |row| [row.file, row.site, row.client, *row.numbers.values].join(",") }
        "#{[FILE, *RubyhttpCell::COLUMNS].join(",")}\n#{lines.map { |line| "#{line}\n" }.join}"
      end

      private

      def read(path)
        head, *lines = File.readlines(path, chomp: true)
        raise UsageError, "#{path} was not written by nb rubyhttp" unless
          HEADERS.any? { |columns| columns.join(",") == head }

        lines.map { |line| row(path, head.start_with?(FILE), line.split(",", -1)) }
      rescue SystemCallError => error
        raise UsageError, error.message
      rescue ArgumentError, TypeError
        raise UsageError, "#{path} was not written by nb rubyhttp, or has been changed"
      end

      def row(path, combined, values)
        file = combined ? values.shift : File.basename(path, ".csv")
        site, client, *numbers = values
        names = RubyhttpCell::COLUMNS.drop(2)
        raise ArgumentError unless numbers.size == names.size

        Row.new(file, site, client, names.zip(numbers.map { |text| number(text) }).to_h)
      end

      # In the form in which it was written: "38" or "38.0".
      def number(text)
        return if text.empty?

        text.include?(".") || text.include?("e") ? Float(text) : Integer(text, 10)
      end
    end
  end
end

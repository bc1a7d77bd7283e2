# frozen_string_literal: true

require_relative "finding"
require_relative "rubyhttp_results"

module NB
  module CLI
    # The findings of the study of 2008, checked against today's rows.
    class RubyhttpFindings
      FAST = "dallas"
      # Those whose bytes Ruby sees.
      WAYS = (RubyhttpWays::ALL.keys - ["stock", RubyhttpWays::SPLICE]).freeze
      # Finding => clients that need more CPU time per gigabyte than others.
      MORE = {
        "Net::HTTP as it comes is worse than every other way of filling its buffer" =>
          [["stock"], WAYS],
        "1 KB with Timeout is worse than 16 KB with Timeout" =>
          [["custom-1kbuffer-timeout"], ["custom-16kbuffer"]],
        "select is worse than no timeout at all" =>
          [%w[custom-16kbuffer-select], %w[custom-16kbuffer-notimeout]],
        "Timeout is worse than select" =>
          [%w[custom-16kbuffer], %w[custom-16kbuffer-select]],
        "64 KB is worse than 16 KB" =>
          [%w[custom-64kbuffer-notimeout], %w[custom-16kbuffer-notimeout]],
        "Every way of Net::HTTP is worse than curb" => [["stock", *WAYS], %w[curb]],
        "16 KB without a timeout is worse than rfuzz, of which http.rb is the heir" =>
          [%w[custom-16kbuffer-notimeout], %w[http.rb]]
      }.freeze
      PERCENT = "“% CPU” is highest at the fastest site and lowest at the slowest"
      TOTAL = "CPU time per gigabyte does not depend on the site (within a fifth)"
      FIFTH = 1.2
      private_constant :FAST, :WAYS, :MORE, :PERCENT, :TOTAL, :FIFTH

      # @param results [RubyhttpResults]
      # @param file [String] one of their files
      def initialize(results, file)
        @rows = results.rows.select { |row| row.file == file }
      end

      # @return [Array<Finding>] verdicts: :holds, :same, :wrong or :unmeasured
      def all
        [*MORE.map { |text, (more, less)| compare(text, more, less) }, percent, total]
      end

      private

      # Compares the least of those that should need more with the most of the others.
      def compare(text, more, less)
        high, low = at(more).min_by(&:cpu_per_gb), at(less).max_by(&:cpu_per_gb)
        return Finding.unmeasured(text) unless high && low

        Finding.by_ratio(text, high.cpu_per_gb / low.cpu_per_gb,
                         [high, low].map { |row| figure(row) }.join(", "))
      end

      def at(clients)
        @rows.select { |row| row.site == FAST && clients.include?(row.client) && row.cpu_per_gb }
      end

      def figure(row) = format("%s %.2f s/GB", row.client, row.cpu_per_gb)

      def percent
        fast, *, slow = stock_rows.sort_by { |row| -row.numbers["KBytes/second"] }
        return Finding.unmeasured(PERCENT) unless slow

        figures = [fast, slow].map { |row| format("%s %.1f %%", row.site, row.cpu_percent) }
        Finding.by_ratio(PERCENT, fast.cpu_percent / slow.cpu_percent,
                         "stock: #{figures.join(", ")}")
      end

      def total
        rows = stock_rows
        return Finding.unmeasured(TOTAL) if rows.size < 2

        least, most = rows.minmax_by(&:cpu_per_gb)
        figures = [least, most].map { |row| format("%s %.2f s/GB", row.site, row.cpu_per_gb) }
        ratio = most.cpu_per_gb / least.cpu_per_gb
        Finding.new(TOTAL, ratio <= FIFTH ? :holds : :wrong, "stock: #{figures.join(", ")}", ratio)
      end

      def stock_rows = @rows.select { |row| row.client == "stock" && row.cpu_per_gb }
    end
  end
end

# frozen_string_literal: true

module Bench
  module Report
    # Numbers as people read them.
    module Format
      # What stands where nothing was measured.
      NOTHING = "–"

      module_function

      # Three digits that count, thousands parted by commas.
      #
      # @param value [Numeric, nil]
      # @return [String]
      def number(value)
        return NOTHING if value.nil?
        return "0" if value.zero?

        size = value.abs
        return thousands(value.round) if size >= 99.95
        return format("%.1f", value) if size >= 9.995
        return format("%.2f", value) if size >= 0.9995

        decimals = 2 - Math.log10(size).floor
        format("%.#{decimals}f", value)
      end

      # @param value [Integer]
      # @return [String]
      def thousands(value)
        value.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, ",")
      end

      # A number of a chart's axis: short.
      #
      # @param value [Numeric]
      # @return [String]
      def tick(value)
        size = value.abs
        return "#{short(value / 1e6)}M" if size >= 1e6
        return "#{short(value / 1e3)}k" if size >= 1e3

        short(value)
      end

      # @param value [Numeric]
      # @return [String] without trailing zeros
      def short(value)
        value == value.to_i ? value.to_i.to_s : format("%.6f", value).sub(/0+\z/, "")
      end

      # @param estimate [Estimate]
      # @return [String] "2.43×"
      def ratio(estimate)
        "#{number(estimate.ratio)}×"
      end

      # @param estimate [Estimate]
      # @return [String] "2.40–2.47"
      def interval(estimate)
        return NOTHING unless estimate.enough?

        "#{number(estimate.low)}–#{number(estimate.high)}"
      end

      # CPU time, errors and doubt of a figure, for small print.
      #
      # @param figure [Figure]
      # @return [Array<String>] such as ["97 % CPU", "3 errors"]; empty when nothing is known
      def small_print(figure)
        [*("#{(figure.cpu * 100).round} % CPU" if figure.cpu), *doubts(figure)]
      end

      # @param figure [Figure]
      # @return [Array<String>] its scatter and errors, such as ["±12 %", "3 errors"]
      def doubts(figure)
        [*("±#{(figure.cv * 100).round} %" if figure.noisy?),
         *(errors(figure.errors) if figure.errors.to_i.positive?)]
      end

      # @param count [Integer]
      # @return [String]
      def errors(count)
        "#{thousands(count)} #{count == 1 ? "error" : "errors"}"
      end
    end
  end
end

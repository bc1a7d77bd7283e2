# frozen_string_literal: true

module Bench
  # The few numbers that a table needs. Pure functions over arrays of Numeric; nothing is dropped as
  # an outlier.
  module Statistics
    # How many pairs a campaign looks at, and the risk that the interval of this look misses the
    # median: exact for these numbers, together 4.9 %.
    RISKS = { 6 => 2.0 / 64, 12 => 2 * 13.0 / 4096, 20 => 2 * 6196.0 / 1_048_576 }.freeze
    # With fewer values there is no interval.
    FEWEST = RISKS.keys.first

    module_function

    # @param values [Array<Numeric>] at least one
    # @return [Float] the middle value, or the mean of the two middle ones
    def median(values)
      raise ArgumentError, "values: must not be empty" if values.empty?

      middle(values.sort)
    end

    # @param values [Array<Numeric>] at least one
    # @return [Float]
    def mean(values)
      raise ArgumentError, "values: must not be empty" if values.empty?

      values.sum.to_f / values.size
    end

    # Coefficient of variation: standard deviation (n - 1) over mean.
    #
    # @param values [Array<Numeric>]
    # @return [Float, nil] a share (0.05 is 5 %); nil for fewer than two values or a mean of zero
    def cv(values)
      return if values.size < 2

      average = mean(values)
      return if average.zero?

      squares = values.sum { |value| (value - average)**2 }
      Math.sqrt(squares / (values.size - 1)) / average.abs
    end

    # The interval of the median between two order statistics. It is exact: it supposes nothing of
    # the values but that they are independent, for the number of them below the true median is
    # binomial. With fewer than six values there is no 95 % interval at all.
    #
    # Who looks at 6, 12 and 20 pairs and stops as soon as he can tell has three chances to err;
    # {RISKS} divides the 5 % among them, so the intervals hold however often one looked.
    #
    # @param values [Array<Numeric>]
    # @return [Array(Numeric, Numeric), nil] low and high end; nil for fewer than {FEWEST} values
    def interval(values)
      count = values.size
      return if count < FEWEST

      risk = RISKS.select { |size, _| size <= count }.values.last
      outside = outside(count, risk)
      sorted = values.sort
      [sorted[outside], sorted[-1 - outside]]
    end

    # @param count [Integer] of values
    # @param risk [Float] that the median lies outside the interval
    # @return [Integer] how many values on each side the interval may leave out
    def outside(count, risk)
      ways = 1 # to choose so many of them
      sum = 0
      (0..count).count do |chosen|
        sum += ways
        ways = ways * (count - chosen) / (chosen + 1)
        sum <= risk / 2 * (2**count)
      end - 1
    end

    # @param sorted [Array<Numeric>]
    # @return [Float]
    def middle(sorted)
      half = sorted.size / 2
      sorted.size.odd? ? sorted[half].to_f : (sorted[half - 1] + sorted[half]) / 2.0
    end
  end
end

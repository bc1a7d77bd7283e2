# frozen_string_literal: true

module Bench
  # The few numbers that a table needs. Pure functions over arrays of Numeric; nothing is dropped as
  # an outlier.
  module Statistics
    # How often a sample is drawn anew for an interval.
    ROUNDS = 10_000
    # Seed of the draws: the same samples always give the same interval.
    SEED = 2008

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

    # @param values [Array<Numeric>] at least one
    # @param share [Float] 0.0..1.0
    # @return [Float] linear between the two nearest values
    def percentile(values, share)
      raise ArgumentError, "share: must be 0.0..1.0, got: #{share.inspect}" unless (0..1) === share

      sorted = values.sort
      place = share * (sorted.size - 1)
      low = sorted[place.floor]
      low + ((sorted[place.ceil] - low) * (place - place.floor)).to_f
    end

    # Percentile bootstrap of the median.
    #
    # @param values [Array<Numeric>] at least one
    # @param level [Float] 0.95 for the 95 % interval
    # @param rounds [Integer] number of resamples
    # @param seed [Integer] of the generator
    # @return [Array(Float, Float)] low and high end
    def interval(values, level: 0.95, rounds: ROUNDS, seed: SEED)
      raise ArgumentError, "values: must not be empty" if values.empty?

      random = Random.new(seed)
      count = values.size
      medians = Array.new(rounds) do
        middle(Array.new(count) { values[random.rand(count)] }.sort!)
      end
      tail = (1.0 - level) / 2
      [percentile(medians, tail), percentile(medians, 1.0 - tail)]
    end

    # @param sorted [Array<Numeric>]
    # @return [Float]
    def middle(sorted)
      half = sorted.size / 2
      sorted.size.odd? ? sorted[half].to_f : (sorted[half - 1] + sorted[half]) / 2.0
    end
  end
end

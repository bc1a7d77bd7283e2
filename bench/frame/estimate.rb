# frozen_string_literal: true

module Bench
  # How many times better one series is than another, from samples taken in pairs.
  #
  # The ratio is the median of the per-pair ratios (taken on logarithms); its interval, see
  # {Statistics.interval}. Above 1.0 is better whichever direction the unit has.
  class Estimate
    # Differences smaller than this are called the same.
    MARGIN = 0.02
    # With fewer pairs there is no interval, and no verdict.
    FEWEST = Statistics::FEWEST

    # @return [Float] median ratio; above 1.0 is better
    attr_reader :ratio
    # @return [Float, nil] ends of the 95 % interval of {#ratio}; nil with too few pairs
    attr_reader :low, :high
    # @return [Integer] number of pairs
    attr_reader :pairs

    # @param pairs [Array(Array(Numeric, Numeric))] (subject, rival) of each pair, all above zero
    # @param better [Symbol] :higher or :lower
    # @return [Estimate, nil] nil without a single usable pair
    def self.from(pairs, better:)
      logs = pairs.filter_map do |subject, rival|
        next unless subject&.positive? && rival&.positive?

        better == :higher ? Math.log(subject.fdiv(rival)) : Math.log(rival.fdiv(subject))
      end
      return if logs.empty?

      low, high = Statistics.interval(logs)&.map { |log| Math.exp(log) }
      new(Math.exp(Statistics.median(logs)), low && (low..high), logs.size)
    end

    # @param ratio [Float]
    # @param interval [Range<Float>, nil]
    # @param pairs [Integer]
    def initialize(ratio, interval, pairs)
      @ratio = ratio
      @low = interval&.min
      @high = interval&.max
      @pairs = pairs
      freeze
    end

    # The largest factor by which a series differed from itself: a claim below it is not made.
    #
    # @return [Float] 1.0 or more; 1.0 with too few pairs to know
    def spread
      enough? ? [high, 1 / low].max : 1.0
    end

    # @return [Boolean] whether there are pairs enough for an interval
    def enough? = !low.nil?

    # @param floor [Float] spread of the subject against itself in the same run, 1.0 when unknown
    # @return [Symbol] :faster, :slower, :same, :inconclusive, or :few when there are too few pairs
    def verdict(floor: 1.0)
      return :few unless enough?
      return :same if low >= 1 - MARGIN && high <= 1 + MARGIN
      return :inconclusive if ratio < floor && ratio > 1 / floor
      return :faster if low > 1 + MARGIN
      return :slower if high < 1 - MARGIN

      :inconclusive
    end
  end
end

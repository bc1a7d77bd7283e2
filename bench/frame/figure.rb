# frozen_string_literal: true

module Bench
  # One number of a table, with what is known about it.
  #
  # @!attribute value [Float, nil] the median; nil when no sample succeeded
  # @!attribute low [Float, nil] lowest sample, or lower end of an interval
  # @!attribute high [Float, nil] highest sample, or upper end of an interval
  # @!attribute cv [Float, nil] coefficient of variation of the samples, a share
  # @!attribute count [Integer] number of samples
  # @!attribute cpu [Float, nil] CPU seconds (user + system) per second of clock time
  # @!attribute errors [Integer] wrong answers, early wake-ups and exceptions in all samples
  # @!attribute notes [Array<String>] what a reader must know ("extrapolated from 20 requests")
  Figure = Struct.new(:value, :low, :high, :cv, :count, :cpu, :errors, :notes,
                      keyword_init: true) do
    # @param value [Numeric] a published or computed number
    # @param notes [Array<String>]
    # @return [Figure] one without samples
    def self.of(value, notes: [])
      new(value: value, count: 0, errors: 0, notes: notes)
    end

    # @return [Boolean] whether there is an interval to draw
    def interval?
      !low.nil? && !high.nil? && low != high
    end

    # @return [Boolean] whether the samples differ so much that the number must not be trusted
    def noisy?
      !cv.nil? && cv > 0.1
    end
  end
end

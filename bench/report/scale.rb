# frozen_string_literal: true

module Bench
  module Report
    # Turns values into pixels along one axis, and chooses where the ticks stand.
    class Scale
      # @return [Array<Numeric>] values with a tick
      attr_reader :ticks

      # @param values [Array<Numeric>] all that must fit
      # @param from [Numeric] pixel of the low end
      # @param to [Numeric] pixel of the high end; may be smaller than from
      # @param log [Boolean]
      # @return [Scale]
      def self.for(values, from:, to:, log: false)
        positive = values.select(&:positive?)
        return LogScale.new(positive, from, to) if log && positive.any?

        Scale.new(values, from, to)
      end

      # @param values [Array<Numeric>]
      # @param from [Numeric]
      # @param to [Numeric]
      def initialize(values, from, to)
        @from = from
        @to = to
        low = [0, *values].min
        high = [0, *values].max
        high = low + 1 if high == low
        step = step_for(high - low)
        @low = low.fdiv(step).floor * step
        @high = high.fdiv(step).ceil * step
        count = ((@high - @low) / step).round
        @ticks = Array.new(count + 1) { |index| (@low + (index * step)).round(9) }
      end

      # @param value [Numeric]
      # @return [Float] pixel; values outside are held at the ends
      def at(value)
        share = (value - @low).fdiv(@high - @low).clamp(0.0, 1.0)
        @from + (share * (@to - @from))
      end

      private

      # 1, 2 or 5 times a power of ten, so that four to eight ticks fit.
      def step_for(range)
        power = 10.0**Math.log10(range / 4.0).floor
        step = [1, 2, 5, 10].map { |factor| factor * power }.find { |size| range / size <= 6 }
        step >= 1 ? step.to_i : step
      end
    end

    # The same on logarithms; the ticks are powers of ten.
    class LogScale < Scale
      # @param values [Array<Numeric>] all above zero
      # @param from [Numeric]
      # @param to [Numeric]
      def initialize(values, from, to)
        @from = from
        @to = to
        low = Math.log10(values.min).floor
        high = Math.log10(values.max).ceil
        high = low + 1 if high == low
        @low = low
        @high = high
        @ticks = (low..high).map { |power| power.negative? ? (10.0**power) : 10**power }
      end

      # @param value [Numeric] zero and below stand at the low end
      # @return [Float]
      def at(value)
        share = value.positive? ? (Math.log10(value) - @low).fdiv(@high - @low) : 0.0
        @from + (share.clamp(0.0, 1.0) * (@to - @from))
      end
    end

    # A scale without ticks whose ends are given: the columns of a line chart.
    class PlainScale
      # @param values [Array<Numeric>]
      # @param from [Numeric]
      # @param to [Numeric]
      # @param log [Boolean]
      def initialize(values, from:, to:, log:)
        @log = log
        @low, @high = values.minmax.map { |value| place(value) }
        @from = from
        @to = to
      end

      # @param value [Numeric]
      # @return [Float]
      def at(value)
        return (@from + @to) / 2.0 if @high == @low

        @from + ((place(value) - @low).fdiv(@high - @low) * (@to - @from))
      end

      private

      def place(value) = @log ? Math.log10(value) : value
    end
  end
end

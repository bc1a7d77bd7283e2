# frozen_string_literal: true

module Bench
  # One direction of a table: the values that a parameter takes.
  class Axis
    # @return [Symbol] the parameter's name
    attr_reader :name
    # @return [String] what a reader calls it
    attr_reader :title
    # @return [Array] its values, in order
    attr_reader :values
    # @return [Array] the values of a quick run
    attr_reader :quick

    # @param name [Symbol]
    # @param values [Array<Numeric, String>]
    # @param title [String]
    # @param unit [String, nil] printed after each value
    # @param quick [Array, nil] a part of values; nil for all
    # @param labels [Hash] value => text, where the value itself does not read well
    def initialize(name, values, title: name.to_s, unit: nil, quick: nil, labels: {})
      @name = name
      @values = values
      @title = title
      @unit = unit
      @quick = quick || values
      @labels = labels
      strange = @quick - values
      raise ArgumentError, "quick: #{strange} not in #{values}" if strange.any?
    end

    # @param value [Numeric, String]
    # @return [String] how a reader sees the value
    def label(value)
      return @labels[value] if @labels.key?(value)
      return Bench.runtimes[value].label if name == :runtime && Bench.runtimes.key?(value)

      text = value.is_a?(Integer) ? value.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, ",") : value.to_s
      [text, @unit].compact.join(" ")
    end
  end
end

# frozen_string_literal: true

module NB
  # Checks arguments where they come in. Each error is one sentence: which argument, what is
  # allowed, and what was given.
  #
  # @api private
  module Check
    # Seconds, 31 million years: more is no limit. Ruby itself refuses to wait for 10**19.
    FOREVER = 10**15
    private_constant :FOREVER

    class << self
      # @param name [String] as the caller writes it, such as "size:"
      # @return [Integer]
      # @raise [ArgumentError] if it is no whole number, or less than `min`
      def count(name, value, min: 1)
        return value if value.is_a?(Integer) && value >= min

        number = Integer(value, exception: false)
        return number if number && number >= min && (!value.is_a?(Numeric) || number == value)

        raise ArgumentError, "#{name} must be a whole number of #{min} or more, got: " \
                             "#{value.inspect}"
      end

      # @return [Float, Integer, nil] seconds; nil, or more than any clock counts: nil, no limit
      # @raise [ArgumentError] if it is no number, or less than 0
      def seconds(name, value)
        return if value.nil?

        seconds = number(value)
        return (seconds unless seconds >= FOREVER) if seconds && seconds >= 0

        raise ArgumentError, "#{name} must be seconds, 0 or more, or nil for no limit, got: " \
                             "#{value.inspect}"
      end

      # @param positive [Boolean] whether 0 is refused, too
      # @return [Float, Integer] seconds
      # @raise [ArgumentError] if it is no finite number, or less than 0
      def finite_seconds(name, value, positive: false)
        seconds = number(value)
        return [seconds, FOREVER].min if
          seconds&.finite? && (seconds.positive? || (!positive && seconds.zero?))

        least = positive ? "more than 0" : "0 or more"
        raise ArgumentError, "#{name} must be seconds, #{least}, got: #{value.inspect}"
      end

      # @return [#call] the value
      # @raise [ArgumentError] if it cannot be called
      def callable(name, value)
        return value if value.respond_to?(:call)

        raise ArgumentError, "#{name} must respond to call, as a lambda does, got: #{value.inspect}"
      end

      # @return [Proc] the block
      # @raise [ArgumentError] if there is none
      def block(name, block)
        block || raise(ArgumentError, "#{name} needs a block")
      end

      # @return [void]
      # @raise [ArgumentError] if there is one
      def no_block(name, block)
        return unless block

        raise ArgumentError, "#{name} takes callables and no block: #{name}(-> { ... }, -> { ... })"
      end

      # @return [void]
      # @raise [ArgumentError] unless it is nil or something that can be raised
      def exception(name, value)
        return if value.nil? || value.is_a?(Exception) || (value.is_a?(Class) && value <= Exception)

        raise ArgumentError, "#{name} must be an exception or its class, got: #{value.inspect}"
      end

      private

      def number(value)
        value.is_a?(Integer) ? value : (Float(value) if value.is_a?(Numeric))
      rescue TypeError, RangeError # a Complex
        nil
      end
    end
  end
end

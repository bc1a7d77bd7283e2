# frozen_string_literal: true

module NB
  class Server
    # Checks the values of options. Each method returns the value in the form that is used, or
    # raises one sentence: the option's name, what is allowed, and what was given.
    #
    # @api private
    module Checks
      module_function

      # @param range [Range]
      # @param also [String, nil] what is allowed besides, for the message
      # @return [Integer]
      # @raise [ArgumentError]
      def integer(name, value, range, also: nil)
        number = value.is_a?(Numeric) ? whole(value) : Integer(value, exception: false)
        return number if number && range.cover?(number)

        refuse(name, ["an integer in #{range}", *also].join(" or "), value)
      end

      # @param zero [Boolean] whether 0 is allowed
      # @return [Float, nil] nil: no limit, also for infinity
      # @raise [ArgumentError]
      def seconds(name, value, zero: false)
        return if value.nil?

        seconds = Float(value, exception: false)
        refuse(name, "seconds #{zero ? ">=" : ">"} 0, or nil for no limit", value) unless
          seconds && (seconds.positive? || (zero && seconds.zero?))
        seconds unless seconds.infinite?
      end

      # @return [Boolean]
      # @raise [ArgumentError]
      def boolean(name, value)
        case value
        when true, false then value
        when nil then false
        else refuse(name, "true or false", value)
        end
      end

      # @return [#write, nil]
      # @raise [ArgumentError]
      def writer(name, value)
        return value if value.nil? || value.respond_to?(:write)

        refuse(name, "an IO or the like, or nil for none", value)
      end

      # @return [#call]
      # @raise [ArgumentError]
      def app(value)
        return value if value.respond_to?(:call)

        raise ArgumentError, "the application must respond to call, as a lambda does, got: " \
                             "#{value.inspect}"
      end

      # @return [String]
      # @raise [ArgumentError]
      def text(name, value)
        text = value.is_a?(Symbol) ? value.to_s : String.try_convert(value) || path(value)
        return text unless text.nil? || text.empty? || text.include?("\0")

        refuse(name, "a name or a path", value)
      end

      # @return [String, nil] the path of a Pathname and the like; an IO's own name may not be a
      #   path
      def path(value) = value.respond_to?(:to_path) && !value.is_a?(IO) ? value.to_path : nil

      def refuse(name, allowed, value)
        raise ArgumentError, "#{name}: must be #{allowed}, got: #{value.inspect}"
      end

      # @param number [Numeric]
      # @return [Integer, nil] nil unless it is a whole number
      def whole(number)
        whole = Integer(number, exception: false)
        whole if whole == number
      end
    end
  end
end

# frozen_string_literal: true

module NB
  # The result of one callable of {NB.settle}: its value, or its error.
  #
  # @example
  #   case NB.settle(-> { Net::HTTP.get(uri) }, timeout: 2).first
  #   in { ok: true, value: } then puts value
  #   in { error: Timeout::Error } then puts "too slow"
  #   in { error: } then warn error.message
  #   end
  class Outcome
    # @return [Object, nil] the value; nil after an error
    attr_reader :value
    # @return [Exception, nil] what it raised; Timeout::Error: it was cancelled when time was up
    attr_reader :error

    # @return [Outcome] of the block, however it ends
    # @raise [Exception] anything that is no failure, such as {Cancelled} or SystemExit
    # @api private
    def self.of
      new(yield, nil)
    rescue *FAILURES => error
      new(nil, error)
    end

    # @api private
    def initialize(value, error)
      @value = value
      @error = error
    end

    # @return [Boolean] whether there was no error
    def ok? = @error.nil?

    # @return [Object] the value
    # @raise [Exception] the error
    def value! = ok? ? @value : raise(@error)

    # @return [Hash] `ok`, `value` and `error`, for `case ... in`
    def deconstruct_keys(_keys) = { ok: ok?, value: @value, error: @error }

    # @return [String] e.g. `#<NB::Outcome value: 42>`
    def inspect
      "#<#{self.class.name} #{ok? ? "value: #{@value.inspect}" : "error: #{@error.inspect}"}>"
    end
  end
end

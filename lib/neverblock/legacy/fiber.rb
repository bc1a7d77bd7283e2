# frozen_string_literal: true

require_relative "names"

module NB
  # The fiber of 2008: Ruby's own, with locals. It stops at Fiber.yield and continues when resumed.
  # In a loop it may also wait, but then its resumer waits, too: use {NB.async} there.
  #
  # @example
  #   fiber = NB::Fiber.new { NB::Fiber.yield }
  #   fiber[:request] = 7
  #   fiber.resume
  #   fiber.resume(Timeout::Error.new("too late")) # raises it in the fiber
  class Fiber < ::Fiber
    include Legacy::Locals

    # Stops the current fiber until it is resumed.
    #
    # @param values [Array] the return value of `resume`
    # @return what it was resumed with
    # @raise [Exception] if it was resumed with one
    # @scheduling always waits
    def self.yield(*values)
      value = super
      raise value if value.is_a?(::Exception)

      value
    end

    # @param neverblock [Boolean] false: its waits stop the whole thread
    # @param options [Hash] as for Ruby's Fiber.new
    # @yield in the new fiber
    # @scheduling never waits
    def initialize(neverblock = true, **options, &block)
      super(**{ blocking: !neverblock }, **options, &block)
      self[:neverblock] = neverblock
    end
  end
end

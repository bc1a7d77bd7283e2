# frozen_string_literal: true

require_relative "names"

module NB
  # The fiber of 2008: Ruby's own, with locals. It stops with Fiber.yield and goes on when it is
  # resumed; in a loop it may also wait, and whoever resumed it waits too: there use {NB.async}.
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
    # @param values [Array] what `resume` returns there
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
    # @yield what the fiber runs
    # @scheduling never waits
    def initialize(neverblock = true, **options, &block)
      super(**{ blocking: !neverblock }, **options, &block)
      self[:neverblock] = neverblock
    end
  end
end

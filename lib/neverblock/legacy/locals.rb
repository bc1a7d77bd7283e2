# frozen_string_literal: true

require_relative "names"

module NB
  module Legacy
    # Fiber locals as in 2008: `fiber[:key]` works from any fiber, unlike Ruby's own `Fiber[:key]`,
    # which means the current one. {NB::Fiber} has them; once an old door was required, every fiber
    # does.
    module Locals
      # @return [Hash] the locals of any fiber, even one without this module
      # @api private
      def self.of(fiber)
        fiber.instance_variable_get(:@neverblock_locals) ||
          fiber.instance_variable_set(:@neverblock_locals, {})
      end

      # @param key [Symbol, Object]
      # @return [Object, nil]
      # @scheduling never waits
      def [](key) = Locals.of(self)[key]

      # @param key [Symbol, Object]
      # @param value [Object]
      # @scheduling never waits
      def []=(key, value)
        Locals.of(self)[key] = value
      end
    end
  end
end

# frozen_string_literal: true

require "set"
require_relative "check"

module NB
  # What a task takes over from the fiber that starts it, in addition to Ruby's own fiber storage.
  # For frameworks that keep state per fiber.
  #
  # @example
  #   NB::Inheritance.add do
  #     user = Thread.current[:user]
  #     ->(block) { Thread.current[:user] = user; block.call }
  #   end
  module Inheritance
    @captures = []
    @traces = []

    class << self
      # @param trace [Boolean] whether this state only says which request the work is done for. Such
      #   a trace is also taken over where everything else starts afresh: in {FiberPool#spawn},
      #   {NB.offload}, and the queries and streams of Rails
      # @yieldparam apart [Boolean] whether the task may outlive the code that starts it, as one of
      #   {NB.async} may; one of a {Group} does not
      # @yieldreturn [#call, nil] The block is called in the starting fiber. What it returns is
      #   called in the new fiber with the task's block, and has to call that
      # @return [void]
      # @raise [ArgumentError] without a block
      # @scheduling never waits
      # @thread any
      def add(trace: false, &capture)
        Check.block("NB::Inheritance.add", capture)
        @captures += [capture]
        @traces += [capture] if trace
      end

      # @return [Boolean] whether a task takes nothing over
      # @api private
      def none? = @captures.empty?

      # @param block [Proc]
      # @param apart [Boolean] see {add}
      # @return [Proc] the block, wrapped in everything captured here and now
      # @api private
      def wrap(block, apart: false) = surround(@captures, block, apart)

      # @param block [Proc]
      # @return [Proc] the block, wrapped in the traces captured here and now
      # @api private
      def trace(block) = surround(@traces, block, true)

      # What a new fiber may change for itself: the Hash anew, with copies of the lists, Hashes
      # and Sets in it. Any other value is the same object.
      #
      # @param values [Hash]
      # @return [Hash]
      # @api private
      def copies(values) = values.dup.transform_values! { |value| copy(value) || value }

      # @param value [Object]
      # @return [Array, Hash, Set, nil] a copy; nil: it is none of these
      # @api private
      def copy(value)
        value.dup if value.is_a?(Array) || value.is_a?(Hash) || value.is_a?(Set)
      end

      private

      def surround(captures, block, apart)
        captures.reduce(block) do |inner, capture|
          around = capture.call(apart)
          around ? -> { around.call(inner) } : inner
        end
      end
    end
  end
end

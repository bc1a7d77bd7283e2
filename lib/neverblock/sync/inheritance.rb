# frozen_string_literal: true

module NB
  # What a task takes along from the fiber that starts it, beside Ruby's own fiber storage: for
  # frameworks that keep state per fiber.
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
      # @param trace [Boolean] whether it says which request the work is done for, and no more. A
      #   trace also goes along where all else begins like new: to {FiberPool#spawn}, {NB.offload},
      #   and the queries and streams of Rails
      # @yieldparam apart [Boolean] whether the task may outlive the one who starts it, as that of
      #   {NB.async}; one of a {Group} does not
      # @yieldreturn [#call, nil] called in the starting fiber; what it returns is called in the new
      #   one with the task's block, which it has to call
      # @return [void]
      # @scheduling never waits
      # @thread any
      def add(trace: false, &capture)
        @captures += [capture]
        @traces += [capture] if trace
      end

      # @return [Boolean] whether a task takes nothing along
      # @api private
      def none? = @captures.empty?

      # @param block [Proc]
      # @param apart [Boolean] see {add}
      # @return [Proc] the block, within all that was captured here and now
      # @api private
      def wrap(block, apart: false) = surround(@captures, block, apart)

      # @param block [Proc]
      # @return [Proc] the block, within the traces of here and now
      # @api private
      def trace(block) = surround(@traces, block, true)

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

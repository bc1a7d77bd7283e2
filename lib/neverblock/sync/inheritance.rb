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

    class << self
      # @yieldparam apart [Boolean] whether the task may outlive the one who starts it, as that of
      #   {NB.async}; one of a {Group} does not
      # @yieldreturn [#call, nil] called in the starting fiber; what it returns is called in the new
      #   one with the task's block, which it has to call
      # @return [void]
      # @scheduling never waits
      # @thread any
      def add(&capture) = @captures += [capture]

      # @return [Boolean] whether a task takes nothing along
      # @api private
      def none? = @captures.empty?

      # @param block [Proc]
      # @param apart [Boolean] see {add}
      # @return [Proc] the block, within all that was captured here and now
      # @api private
      def wrap(block, apart: false)
        @captures.reduce(block) do |inner, capture|
          around = capture.call(apart)
          around ? -> { around.call(inner) } : inner
        end
      end
    end
  end
end

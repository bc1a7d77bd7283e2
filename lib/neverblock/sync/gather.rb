# frozen_string_literal: true

require_relative "group"

module NB
  # The common uses of a {Group}, each in one call: {NB.gather}, {NB.map} and {NB.first}.
  module Gather
    class << self
      # Runs all at once and waits for all.
      #
      # @param callables [Array<#call>] none is fine
      # @return [Array] their values, in the order of the arguments
      # @raise [Exception] the first error; the others are cancelled before it is raised
      # @raise [NB::NoSchedulerError] outside of a scheduler's fibers
      # @scheduling may wait
      def all(callables)
        check(callables)
        tasks = Group.run do |group|
          callables.map { |callable| group.async { callable.call } }
        end
        tasks.map(&:value)
      end

      # Runs all at once and takes the first value. The others are then cancelled, and have run
      # their `ensure` when this returns. Errors count only if all fail.
      #
      # @param callables [Array<#call>] at least one
      # @return [Object] the first value
      # @raise [StandardError] if all failed, what the first to fail raised
      # @raise [NB::NoSchedulerError] outside of a scheduler's fibers
      # @scheduling may wait
      def first(callables)
        check(callables)
        raise ArgumentError, "nothing to run: give one callable or more" if callables.empty?

        values = []
        errors = []
        Group.run do |group|
          callables.each do |callable|
            break unless values.empty?

            group.async do
              values << callable.call
              group.cancel
            rescue StandardError => error
              errors << error
            end
          end
        end
        values.empty? ? raise(errors.first) : values.first
      end

      # Maps with at most `concurrency` blocks at a time, and takes the next item only when there is
      # room for it, so the source may be long or slow.
      #
      # From a lazy enumerator comes a lazy enumerator, so the source may also have no end: it runs
      # ahead of its reader by at most `concurrency` items, and cancels those when the reader has
      # enough. Read it by `each`, `first` and the like; `next` would run it in a blocking fiber.
      #
      # @param items [#each]
      # @param concurrency [Integer] 1 or more
      # @yieldparam item [Object]
      # @return [Array, Enumerator::Lazy] the values in the order of the items
      # @raise [Exception] the first error, of the block or of the source; the rest is cancelled
      # @raise [NB::NoSchedulerError] outside of a scheduler's fibers
      # @scheduling may wait
      def map(items, concurrency:, &block)
        limit = Integer(concurrency)
        raise ArgumentError, "concurrency: must be 1 or more, got: #{limit}" if limit < 1
        raise ArgumentError, "map needs a block" unless block

        items.is_a?(Enumerator::Lazy) ? lazy(items, limit, block) : eager(items, limit, block)
      end

      private

      def eager(items, limit, block)
        values = []
        Group.run do |group|
          # One token for each task, and one for the next: pushing waits while there is no room.
          tokens = Thread::SizedQueue.new(limit).push(true)
          items.to_enum(:each).with_index do |item, index|
            group.async do
              values[index] = block.call(item)
            ensure
              tokens.pop
            end
            tokens.push(true)
          end
        end
        values
      end

      def lazy(items, limit, block)
        values = Enumerator.new do |reader|
          Group.run do |group|
            ahead = []
            items.each do |item|
              ahead << group.async { block.call(item) }
              reader << ahead.shift.value if ahead.size == limit
            end
            reader << ahead.shift.value until ahead.empty?
          end
        end
        values.lazy
      end

      def check(callables)
        wrong = callables.find { |callable| !callable.respond_to?(:call) }
        raise ArgumentError, "cannot be called: #{wrong.inspect}" if wrong
      end
    end
  end
end

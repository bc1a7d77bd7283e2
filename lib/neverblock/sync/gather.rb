# frozen_string_literal: true

require "timeout"
require_relative "check"
require_relative "group"
require_relative "outcome"

module NB
  # The common uses of a {Group}, one call each: {NB.gather}, {NB.settle}, {NB.map}, {NB.first} and
  # {NB.as_completed}.
  module Gather
    # Ends {settle} when time is up; no other code sees it.
    Late = Class.new(::StandardError)
    # The largest queue; there are never so many fibers.
    MOST = (2**31) - 1
    private_constant :Late, :MOST

    class << self
      # Runs all callables concurrently and waits for all of them.
      #
      # @param callables [Array<#call>] may be empty
      # @return [Array] their values, in the order of the arguments
      # @raise [Exception] the first error; the others are cancelled before it is raised
      # @raise [NB::NoSchedulerError] outside a scheduler's fibers
      # @scheduling may wait
      def all(callables)
        check(callables)
        tasks = Group.run do |group|
          callables.map { |callable| group.start(callable) { callable.call } }
        end
        tasks.map(&:value)
      end

      # Runs all callables concurrently and waits for them, or until time is up. An error cancels
      # nothing.
      #
      # @param callables [Array<#call>] may be empty
      # @param timeout [Numeric, nil] seconds; nil, 0 or infinite: no limit
      # @return [Array<Outcome>] in the order of the arguments
      # @raise [NB::NoSchedulerError] outside a scheduler's fibers
      # @scheduling may wait
      def settle(callables, timeout: nil)
        check(callables)
        limit = Check.seconds("timeout:", timeout)
        outcomes = Array.new(callables.size)
        Timeout.timeout(limit, Late) { settle_into(outcomes, callables) }
        outcomes.map { |outcome| outcome || cancelled }
      rescue Late
        outcomes.map { |outcome| outcome || late(timeout) }
      end

      # Yields the values as they become available.
      #
      # @param callables [Array<#call>] may be empty
      # @return [Enumerator] starts the callables when it is read by `each` and the like; `next`
      #   would run it in a blocking fiber. Leaving it early cancels the rest
      # @raise [Exception] from `each`: the first error; the others are cancelled
      # @scheduling its `each` may wait
      def as_completed(callables)
        check(callables)
        Enumerator.new(callables.size) do |reader|
          in_loop do
            Group.run do |group|
              values = Thread::Queue.new
              callables.each { |callable| group.start(callable) { values << callable.call } }
              callables.size.times { reader << values.pop }
            end
          end
        end
      end

      # Runs all callables concurrently and takes the first values. The others are then cancelled,
      # and have run their `ensure` when this returns. Errors matter only if too few callables are
      # left to succeed.
      #
      # @param callables [Array<#call>] at least one
      # @param count [Integer, nil] how many values; nil: one, not in an Array
      # @return [Object, Array] the first value; with count, that many in the order of arrival
      # @raise [StandardError] if too many failed: the error of the first to fail
      # @raise [NB::NoSchedulerError] outside a scheduler's fibers
      # @scheduling may wait
      def first(callables, count: nil)
        check(callables)
        wanted = count ? Check.count("count:", count) : 1
        check_size(callables, wanted)
        values, errors = first_values(callables, wanted)
        raise errors.first if values.size < wanted

        count ? values : values.first
      end

      # Maps with at most `concurrency` blocks at a time, and takes the next item only when there is
      # room for it, so the source may be long or slow.
      #
      # For a lazy enumerator the result is a lazy enumerator, so the source may be endless. It runs
      # at most `concurrency` items ahead of its reader, and cancels those when the reader stops.
      # Read it with `each`, `first` and the like; `next` would run it in a blocking fiber.
      #
      # @param items [#each]
      # @param concurrency [Integer] 1 or more
      # @param errors [Symbol] :raise, or :return: the error takes the place of the value, and
      #   nothing is cancelled
      # @yieldparam item [Object]
      # @return [Array, Enumerator::Lazy] the values in the order of the items. `break` in the block
      #   cancels the other blocks and returns its value; not in a lazy map, which outlives this
      #   call
      # @raise [Exception] the first error, of the block or of the source; the rest is cancelled
      # @raise [NB::NoSchedulerError] outside a scheduler's fibers
      # @scheduling may wait
      def map(items, concurrency:, errors: :raise, &block)
        limit = Check.count("concurrency:", concurrency)
        Check.block("NB.map", block)
        block = errors_as_values(errors, block)
        raise ArgumentError, "items must respond to each, got: #{items.inspect}" unless
          items.respond_to?(:each)

        items.is_a?(Enumerator::Lazy) ? lazy(items, limit, block) : eager(items, limit, block)
      end

      private

      # Ruby 3.1 runs Enumerator#next in a blocking fiber.
      def in_loop(&block)
        return yield if Fiber.current_scheduler || !Fiber.scheduler || !NB.respond_to?(:run)

        NB.run(&block)
      end

      def settle_into(outcomes, callables)
        Group.run do |group|
          callables.each_with_index do |callable, index|
            group.start(callable) { outcomes[index] = Outcome.of { callable.call } }
          end
        end
      end

      def late(timeout)
        Outcome.new(nil, Timeout::Error.new("cancelled: no value within #{timeout} s"))
      end

      def cancelled = Outcome.new(nil, TaskCancelledError.new("no value: it was cancelled"))

      def first_values(callables, wanted)
        values = []
        errors = []
        Group.run do |group|
          callables.each do |callable|
            break if values.size == wanted

            group.start(callable) do
              values << callable.call
              group.cancel if values.size == wanted
            rescue StandardError => error
              errors << error
              group.cancel if callables.size - errors.size < wanted
            end
          end
        end
        [values.first(wanted), errors]
      end

      def errors_as_values(errors, block)
        return block if errors == :raise
        raise ArgumentError, "errors: must be :raise or :return, got: #{errors.inspect}" unless
          errors == :return

        lambda do |item|
          block.call(item)
        rescue *FAILURES => error
          raise if Jump.break?(error, __FILE__)

          error
        end
      end

      def eager(items, limit, block)
        values = []
        broken = nil
        Group.run do |group|
          # One token per task, and one for the next: pushing waits while there is no room.
          tokens = Thread::SizedQueue.new([limit, MOST].min).push(true)
          items.to_enum(:each).with_index do |item, index|
            group.start(block) do
              values[index] = block.call(item)
            rescue LocalJumpError => error
              raise unless Jump.break?(error, __FILE__)

              broken ||= [error.exit_value]
              group.cancel
            ensure
              tokens.pop
            end
            tokens.push(true)
          end
        end
        broken ? broken.first : values
      end

      def lazy(items, limit, block)
        values = Enumerator.new do |reader|
          Group.run do |group|
            ahead = []
            items.each do |item|
              ahead << group.start(block) { block.call(item) }
              reader << ahead.shift.value if ahead.size == limit
            end
            reader << ahead.shift.value until ahead.empty?
          end
        end
        values.lazy
      end

      def check_size(callables, wanted)
        raise ArgumentError, "nothing to run: give one callable or more" if callables.empty?
        return if callables.size >= wanted

        raise ArgumentError, "count: must be at most the number of callables " \
                             "(#{callables.size}), got: #{wanted}"
      end

      def check(callables)
        callables.each { |callable| Check.callable("each argument", callable) }
      end
    end
  end
end

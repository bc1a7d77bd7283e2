# frozen_string_literal: true

# Thread.handle_interrupt. Its masks belong to the thread, and new threads inherit them (all
# versions), including masks of other fibers that wait inside them, as for a pool's connection. Such
# a thread could never be killed, raised in or timed out. Here a fiber that masks nothing itself
# starts threads without masks.
module NB
  module Repairs
    MASKING = {}.compare_by_identity # fiber => how deep it is inside of masks
    private_constant :MASKING

    class << self
      # Counts the calling fiber as inside masks while the block runs.
      #
      # @return the block's value
      # @api private
      def masking
        fiber = ::Fiber.current
        outer = MASKING[fiber]
        MASKING[fiber] = (outer || 0) + 1
        yield
      ensure
        outer ? MASKING[fiber] = outer : MASKING.delete(fiber)
      end

      # @return [Boolean] whether a fiber other than this one is inside masks
      # @api private
      def masking_beside?(fiber) = MASKING.size > (MASKING.key?(fiber) ? 1 : 0)

      # @return [Boolean] whether this fiber is inside masks
      # @api private
      def masks?(fiber) = MASKING.key?(fiber)

      # @return [Boolean]
      # @api private
      def only_others_mask?
        !!loop_here && !MASKING.empty? && !MASKING.key?(::Fiber.current)
      end

      # In a forked child, where the fiber that forked is the only one.
      #
      # @return [void]
      # @api private
      def forget_other_masks = MASKING.keep_if { |fiber, _| fiber.equal?(::Fiber.current) }
    end

    Fork.in_child { forget_other_masks }

    repair(Thread.singleton_class, :handle_interrupt) do |original|
      proc do |mask, &block|
        next __send__(original, mask, &block) unless block && Repairs.loop_here

        __send__(original, mask) { Repairs.masking(&block) }
      end
    end

    [[Thread, :initialize], [Thread.singleton_class, :start],
     [Thread.singleton_class, :fork]].each do |owner, name|
      repair(owner, name) do |original|
        proc do |*arguments, **options, &block|
          unless block && Repairs.only_others_mask?
            next __send__(original, *arguments, **options, &block)
          end

          __send__(original, *arguments, **options) do |*values, **keywords|
            Thread.handle_interrupt(Object => :immediate) { block.call(*values, **keywords) }
          end
        end
      end
    end
  end
end

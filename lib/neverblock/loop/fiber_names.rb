# frozen_string_literal: true

require_relative "fork"

module NB
  # The names of fibers that are the library's own, for {NB.dump}, `nb dump` and `nb top`.
  #
  # @api private
  module FiberNames
    # Each call on it is a single C call, so threads need no lock for it.
    @names = {}.compare_by_identity

    class << self
      # @param name [String] frozen: it is not copied
      # @yield in a fiber of its own, which has the name
      # @return [Fiber]
      # @raise [FiberError] if the system has no room for another fiber
      # @scheduling may wait
      def schedule(name, &block) = Fiber.schedule { within(name, &block) }

      # Gives the current fiber a name for the time of the block. A fiber is used again after it.
      #
      # @param name [String]
      # @return what the block returns
      # @scheduling may wait, as the block does
      def within(name)
        fiber = Fiber.current
        before = @names[fiber]
        @names[fiber] = name
        yield
      ensure
        before ? @names[fiber] = before : @names.delete(fiber)
      end

      # @return [Array<Array(Fiber, String)>]
      # @scheduling never waits
      # @thread any
      def all = @names.to_a

      # In a forked child, only the fiber that forked continues.
      #
      # @return [void]
      def forked = @names.select! { |fiber, _| fiber.equal?(Fiber.current) }
    end

    Fork.in_child { forked }
  end
end

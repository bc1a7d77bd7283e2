# frozen_string_literal: true

module NB
  # State that a fiber would carry over from one piece of work to the next. For code that reuses
  # fibers.
  #
  # @api private
  module FiberState
    # The fiber attribute that holds our blocks, among the attributes that others set.
    AT_END = :@neverblock_at_end

    class << self
      # Calls the block when the current piece of work of the fiber ends; once per key. If the fiber
      # is not reused, it ends without that call.
      #
      # @param key [Object]
      # @param fiber [Fiber] the one that the loop runs
      # @return [void]
      # @scheduling never waits
      def at_end(key, fiber = Fiber.current, &block)
        calls = fiber.instance_variable_get(AT_END) ||
                fiber.instance_variable_set(AT_END, {}.compare_by_identity)
        calls[key] = block
      end

      # Calls these blocks: all of them, even if one raises. Only the server calls this: it clears
      # the rest by itself.
      #
      # @return [void]
      # @raise [Exception] what the last failing block raised
      # @scheduling as the called blocks
      def leave
        fiber = Fiber.current
        return unless fiber.instance_variable_defined?(AT_END)

        call_all(fiber.remove_instance_variable(AT_END).values)
      end

      # Makes the current fiber like new: without locals (`Thread.current[:x]`), storage
      # (`Fiber[:x]`), `$?` (in a loop of ours), and the attributes in which ActiveSupport, I18n and
      # OpenTelemetry keep their state.
      #
      # @return [void]
      # @scheduling never waits
      # @thread any
      def clear
        leave
      ensure
        wipe
      end

      # @return [Hash, nil] a copy of the current fiber's storage, to pass to {.inherit}
      # @scheduling never waits
      def storage
        storage = Fiber.current.storage if Fiber.respond_to?(:[])
        storage unless storage.nil? || storage.empty?
      end

      # Gives this storage to the current fiber, which must be like new.
      #
      # @return [void]
      # @scheduling never waits
      def inherit(storage) = storage.each { |key, value| Fiber[key] = value }

      private

      def call_all(blocks)
        blocks.shift.call until blocks.empty?
      ensure
        call_all(blocks) unless blocks.empty?
      end

      def wipe
        thread = Thread.current
        thread.keys.each { |key| thread[key] = nil }
        fiber = Fiber.current
        fiber.instance_variables.each { |name| fiber.remove_instance_variable(name) }
        clear_storage(fiber)
        scheduler = Fiber.scheduler
        scheduler.clear_last_status if $? && scheduler.respond_to?(:clear_last_status)
      end

      # Setting nil deletes the key, without the warning that `Fiber#storage=` would print.
      def clear_storage(fiber)
        fiber.storage&.each_key { |key| Fiber[key] = nil } if fiber.respond_to?(:storage)
      end
    end
  end
end

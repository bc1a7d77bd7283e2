# frozen_string_literal: true

module NB
  # What a fiber keeps from one piece of work to the next, for those who use a fiber again.
  #
  # @api private
  module FiberState
    # Of the fiber, beside all that others hang on it.
    AT_END = :@neverblock_at_end

    class << self
      # Has the block called when the piece of work ends at which the fiber is; once a key. A fiber
      # that is not used again ends without that.
      #
      # @param key [Object]
      # @param fiber [Fiber] that which the loop runs
      # @return [void]
      # @scheduling never waits
      def at_end(key, fiber = Fiber.current, &block)
        calls = fiber.instance_variable_get(AT_END) ||
                fiber.instance_variable_set(AT_END, {}.compare_by_identity)
        calls[key] = block
      end

      # Called by the server, which clears by itself.
      #
      # @return [void]
      # @scheduling as what is called
      def leave
        fiber = Fiber.current
        return unless fiber.instance_variable_defined?(AT_END)

        fiber.remove_instance_variable(AT_END).each_value(&:call)
      end

      # Makes the current fiber like new: no locals (`Thread.current[:x]`), no storage
      # (`Fiber[:x]`), no attributes, in which ActiveSupport, I18n and OpenTelemetry keep theirs.
      #
      # @return [void]
      # @scheduling never waits
      # @thread any
      def clear
        leave
        thread = Thread.current
        thread.keys.each { |key| thread[key] = nil }
        fiber = Fiber.current
        fiber.instance_variables.each { |name| fiber.remove_instance_variable(name) }
        clear_storage(fiber)
      end

      # @return [Hash, nil] a copy of the current fiber's storage, for {.inherit}
      # @scheduling never waits
      def storage
        storage = Fiber.current.storage if Fiber.respond_to?(:[])
        storage unless storage.nil? || storage.empty?
      end

      # Gives the current fiber, which is like new, this storage.
      #
      # @return [void]
      # @scheduling never waits
      def inherit(storage) = storage.each { |key, value| Fiber[key] = value }

      private

      # Setting nil deletes, and prints no warning as `Fiber#storage=` would.
      def clear_storage(fiber)
        fiber.storage&.each_key { |key| Fiber[key] = nil } if fiber.respond_to?(:storage)
      end
    end
  end
end

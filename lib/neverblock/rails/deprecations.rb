# frozen_string_literal: true

module NB
  module Rails
    # ActiveSupport::Deprecation keeps what `silence` and `allow` have switched off in
    # Concurrent::ThreadLocalVar, even with isolation per fiber. All requests of a loop would share
    # it: while one waits in such a block, the others' warnings are lost, or what `raise` forbids
    # passes. Blocks of `allow` that overlap leave it so forever. With this cure it belongs to the
    # fiber, like Rails' other state.
    module Deprecations
      # Has the methods of Concurrent::ThreadLocalVar that a deprecator uses. A value that it does
      # not have anew is in ActiveSupport::IsolatedExecutionState, under this object.
      class Value
        # @param default [Object] in a fiber that has set nothing
        # @scheduling never waits
        def initialize(default)
          @default = default
        end

        # @return [Object] of this fiber
        # @scheduling never waits
        def value
          state = ActiveSupport::IsolatedExecutionState
          state.key?(self) ? state[self] : @default
        end

        # Sets the value of this fiber.
        #
        # @param value [Object]
        # @scheduling never waits
        def value=(value)
          state = ActiveSupport::IsolatedExecutionState
          value == @default ? state.delete(self) : state[self] = value
        end

        # Sets the value of this fiber during the block.
        #
        # @param value [Object]
        # @return [Object] what the block returns
        # @scheduling may wait, as the block does
        def bind(value)
          before = self.value
          self.value = value
          yield
        ensure
          self.value = before
        end
      end

      # What a deprecator keeps per thread, and the value that it begins with.
      NAMES = { :@silence_counter => 0, :@explicitly_allowed_warnings => nil }.freeze
      private_constant :NAMES

      # Prepended to ActiveSupport::Deprecation.
      module PerFiber
        # Works like Rails' own method.
        # @api private
        def initialize(...)
          super
          Deprecations.convert(self)
        end
      end

      class << self
        # Rails and gems make their deprecators when they are loaded: those are converted, too.
        #
        # @return [void]
        # @scheduling never waits
        def install
          return if ActiveSupport::Deprecation.include?(PerFiber)

          ActiveSupport::Deprecation.prepend(PerFiber)
          ObjectSpace.each_object(ActiveSupport::Deprecation) { |deprecator| convert(deprecator) }
        end

        # A block of `silence` may be open around the code that boots the application.
        #
        # @param deprecator [ActiveSupport::Deprecation]
        # @return [void]
        # @api private
        def convert(deprecator)
          NAMES.each do |name, default|
            before = deprecator.instance_variable_get(name) or next # not yet initialized

            value = Value.new(default)
            value.value = before.value
            deprecator.instance_variable_set(name, value)
          end
        end
      end
    end
  end
end

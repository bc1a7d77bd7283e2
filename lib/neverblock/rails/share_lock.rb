# frozen_string_literal: true

require "delegate"

module NB
  module Rails
    # In development Rails reloads code when no request runs. Who runs is counted per thread, even
    # with isolation per fiber (rails/rails#57423, in no release up to 8.1), so a request that waits
    # has its classes removed under it. ShareLock names `Thread` without a scope: ours, inside the
    # class, is found first.
    module ShareLock
      # What ShareLock calls a thread.
      module Holder
        # @return [Fiber, Thread]
        # @scheduling never waits
        def self.current = ActiveSupport::IsolatedExecutionState.context
      end

      # A fiber for those who print threads.
      class Shown < SimpleDelegator
        # @return [String, nil] in the words of Thread#status
        # @scheduling never waits
        def status
          return unless alive?

          __getobj__ == Fiber.current ? "run" : "sleep"
        end
      end

      # In front of ShareLock, for ActionDispatch::DebugLocks (/rails/locks).
      module Shows
        # As Rails; fibers tell their status too.
        # @api private
        def raw_state
          super do |holders|
            yield(holders.transform_keys { |key| key.is_a?(Fiber) ? Shown.new(key) : key })
          end
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        require "active_support/concurrency/share_lock"
        lock = ActiveSupport::Concurrency::ShareLock
        lock.const_set(:Thread, Holder) unless lock.const_defined?(:Thread, false)
        lock.prepend(Shows)
      end
    end
  end
end

# frozen_string_literal: true

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

      # @return [void]
      # @scheduling never waits
      def self.install
        require "active_support/concurrency/share_lock"
        lock = ActiveSupport::Concurrency::ShareLock
        lock.const_set(:Thread, Holder) unless lock.const_defined?(:Thread, false)
      end
    end
  end
end

# frozen_string_literal: true

require "delegate"

module NB
  module Rails
    # In development, Rails reloads code while no request runs. It counts running requests per
    # thread, even with isolation per fiber (rails/rails#57423, in no release up to 8.1), so the
    # classes of a waiting request are removed under it. ShareLock names `Thread` without a scope:
    # ours, inside the class, is found first.
    #
    # While somebody waits for the running requests to end, Rails lets nobody else begin. But a
    # running request may wait for a fiber that it starts ({NB.async}, ActionController::Live): such
    # a fiber may begin ({Lets}).
    module ShareLock
      # Key in ActiveSupport::IsolatedExecutionState: the fiber whose share of the lock covers this
      # one. Fibers pass it on to those that they start.
      SHARER = :neverblock_sharer

      # ShareLock takes this for Thread.
      module Holder
        # @return [Fiber, Thread]
        # @scheduling never waits
        def self.current = ActiveSupport::IsolatedExecutionState.context
      end

      # Makes a fiber look like a thread, for code that prints threads.
      class Shown < SimpleDelegator
        # @return [String, nil] in the terms of Thread#status
        # @scheduling never waits
        def status
          return unless alive?

          __getobj__ == Fiber.current ? "run" : "sleep"
        end
      end

      # Prepended to ShareLock, for ActionDispatch::DebugLocks (/rails/locks).
      module Shows
        # Works like Rails' own method, and includes the status of fibers.
        # @api private
        def raw_state
          super do |holders|
            yield(holders.transform_keys { |key| key.is_a?(Fiber) ? Shown.new(key) : key })
          end
        end
      end

      # Prepended to ShareLock.
      module Lets
        # Works like Rails' own method.
        # @api private
        def start_sharing
          return super unless NB.running?

          state = ActiveSupport::IsolatedExecutionState
          sharer = state[SHARER]
          synchronize do
            sharer && @sharing.key?(sharer) ? @sharing[state.context] += 1 : super()
          end
          state[SHARER] = state.context
        end
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        require "active_support/concurrency/share_lock"
        lock = ActiveSupport::Concurrency::ShareLock
        lock.const_set(:Thread, Holder) unless lock.const_defined?(:Thread, false)
        lock.prepend(Shows, Lets)
      end
    end
  end
end

# frozen_string_literal: true

module NB
  module Rails
    # A test with transactional fixtures pins its connection: all threads share it, one after the
    # other, by a lock. The test's thread has no scheduler, so it has pinned the connection as a
    # thread ({InnerFibers}), and Rails takes a lock that belongs to threads: all fibers of another
    # thread's loop would be inside at once, and one would get the results of another's query. With
    # this cure, in a loop the lock belongs to a fiber.
    module PinnedLock
      # The lock takes this for Thread.
      module Holder
        class << self
          # @return [Fiber, Thread]
          # @scheduling never waits
          def current = ActiveSupport::IsolatedExecutionState.context

          # Works like Ruby's own method.
          # @api private
          def handle_interrupt(...) = ::Thread.handle_interrupt(...)
        end
      end

      # The class of the lock, until Rails 8.0 and since.
      NAMES = %i[ThreadLoadInterlockAwareMonitor ThreadMonitor].freeze
      private_constant :NAMES

      # @return [void]
      # @scheduling never waits
      def self.install
        ::ActiveRecord::ConnectionAdapters.const_get(:AbstractAdapter) # loads the lock
        concurrency = ActiveSupport::Concurrency
        NAMES.each do |name|
          concurrency.const_get(name).const_set(:Thread, Holder) if concurrency.const_defined?(name)
        end
      end
    end
  end
end

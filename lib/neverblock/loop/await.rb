# frozen_string_literal: true

module NB
  # Connects any callback API to a waiting fiber (or thread): {NB.await}.
  class Await
    # Passed to the block of {NB.await}. Call it once, from any thread, with the value.
    class Resume
      # @api private
      def initialize(queue)
        @queue = queue
      end

      # Ends the wait with a value. Later calls do nothing.
      #
      # @return [Boolean] whether this call was the first
      # @scheduling never waits
      # @thread any
      def call(value = nil) = finish(:value, value)

      # Ends the wait with an exception.
      #
      # @param error [Exception, Class, String] as Kernel#raise
      # @return [Boolean] whether this call was the first
      # @scheduling never waits
      # @thread any
      def raise(error = "unhandled exception", message = nil)
        error = RuntimeError.new(error) if error.is_a?(String)
        ::Kernel.raise TypeError, "exception class/object expected" unless
          error.respond_to?(:exception)

        finish(:raise, message ? error.exception(message) : error.exception)
      end

      # @return [Proc] lets a Resume be passed as a block
      def to_proc = method(:call).to_proc

      private

      def finish(kind, value)
        @queue.push([kind, value], true)
        @queue.close
        true
      rescue ThreadError, ClosedQueueError # another call was first
        false
      end
    end

    # Implements {NB.await}.
    #
    # @api private
    def self.call
      queue = Thread::SizedQueue.new(1)
      yield Resume.new(queue)
      kind, value = queue.pop
      raise value if kind == :raise

      value
    ensure
      queue&.close
    end
  end
end

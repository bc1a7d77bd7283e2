# frozen_string_literal: true

module NB
  class Server
    # Carries another thread's calls on a request's objects into the loop's thread, and the results
    # back. So a stream or rack.input may be used in any thread, although its socket belongs to the
    # loop.
    #
    # @api private
    class LoopCalls
      # Starts in the loop's thread, without keeping the loop running.
      def initialize
        @calls = Thread::Queue.new
        @fiber = FiberNames.schedule("the server's calls from other threads") { carry }
      end

      # Calls the method in a fiber of the loop and waits for it.
      #
      # @return what the method returns
      # @raise [IOError] if the server has stopped
      # @raise [FiberError] if the system has no room for another fiber
      # @raise otherwise what the method raises
      # @scheduling always waits
      # @thread any but the loop's
      def call(target, name, *arguments)
        answer = Thread::Queue.new
        @calls << [answer, target, name, *arguments]
        kind, value = answer.pop
        kind == :value ? value : raise(value)
      rescue ClosedQueueError
        raise IOError, "the server has stopped: no request is left"
      end

      # Takes no more calls; those already taken are answered.
      # @return [void]
      # @scheduling never waits
      def close = @calls.close

      private

      # One fiber per call, because a call may wait for a slow client.
      def carry
        while (call = Fiber.scheduler.idle { @calls.pop })
          start(call)
        end
      ensure
        close
        @calls.pop.first << [:raise, IOError.new("the loop has ended")] until @calls.empty?
      end

      def start(call)
        Fiber.schedule { perform(*call) }
      rescue FiberError => error
        call.first << [:raise, error]
      end

      def perform(answer, target, *call)
        reply = [:raise, IOError.new("the loop has ended")]
        reply = [:value, target.public_send(*call)]
      rescue *FAILURES => error
        reply = [:raise, error]
      ensure
        answer << reply
      end
    end
  end
end

# frozen_string_literal: true

module NB
  class Server
    # Accepted sockets that wait for a fiber of their own: the system may have no room for its stack
    # until others have ended.
    #
    # @api private
    class Admission
      # @yieldparam socket [Socket] in its fiber
      def initialize(&serve)
        @serve = serve
        @sockets = []
      end

      # @return [void]
      # @scheduling never waits
      def <<(socket)
        @sockets << socket
      end

      # Starts a fiber for each of them.
      #
      # @return [Boolean] false: there is no room for another one now
      # @scheduling may wait
      def admit
        while (socket = @sockets.shift)
          Fiber.schedule { @serve.call(socket) }
        end
        true
      rescue FiberError
        @sockets.unshift(socket)
        false
      end

      # @return [Boolean]
      # @scheduling never waits
      def any? = @sockets.any?
    end
  end
end

# frozen_string_literal: true

require_relative "registry"
require_relative "loop_fiber"

# HTTPX keeps what a session waits for (its selector) per thread, so threads can share a persistent
# session. Fibers of one thread shared the selector and its connections, too: when one fiber was
# interrupted, all others got its error, or waited forever. In a loop, each fiber has a selector to
# itself; the connections come from the session's pool, which is made for threads. A connection that
# was left in the middle of a request does not return to the pool: its next user would send the old
# request first.
module NB
  module Drivers
    # Prepended to HTTPX::Pool.
    module HTTPXPool
      # Works like HTTPX's own method, for connections that have answered all requests.
      # @api private
      def checkin_connection(connection)
        return super unless HTTPXSessions.selectors && HTTPXSessions.cut?(connection)

        neverblock_drop(connection)
      end

      # Forgets a connection that is lent, as #checkin_connection takes one back.
      # @api private
      def neverblock_drop(connection)
        return if connection.options.io

        @connection_mtx.synchronize do
          drop_connection(connection)
          @max_connections_cond.signal
          @origin_conds[connection.origin.to_s].signal
        end
      end
    end

    # What HTTPX::Session does in a loop.
    module HTTPXSessions
      # The fiber's instance variable with its selectors, by session.
      SELECTORS = :@neverblock_httpx_selectors
      # The selector's, with the connections that calls around the current one use.
      OUTER = :@neverblock_outer
      private_constant :SELECTORS, :OUTER

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::HTTPX::Session.prepend(self)
          ::HTTPX::Pool.prepend(HTTPXPool)
        end

        # For HTTPX, a request whose answer has begun is not in flight any more; but it counts it.
        #
        # @return [Boolean] whether a request was left in the middle
        # @api private
        def cut?(connection)
          connection.inflight? || connection.instance_variable_get(:@inflight).positive?
        end

        # @return [Array] the connections that {cut?}
        # @api private
        def cut(selector) = selector.each_connection.select { |connection| cut?(connection) }

        # @return [Hash, nil] of the loop's fiber; nil: the thread's own are used
        # @api private
        def selectors
          fiber = LoopFiber.current # nil in other Ractors, which may not see the driver
          return unless fiber && @driver.on?

          fiber.instance_variable_get(SELECTORS) ||
            fiber.instance_variable_set(SELECTORS, {}.compare_by_identity)
        end
      end

      private

      def selector_store = HTTPXSessions.selectors || super

      # A call may come from the block of another one, which reads its answer there: that one is in
      # the middle of its request, too, and goes on afterwards.
      def send_requests(*)
        selector = HTTPXSessions.selectors&.[](self)
        return super unless selector

        outer = selector.instance_variable_get(OUTER)
        selector.instance_variable_set(OUTER, HTTPXSessions.cut(selector))
        super
      ensure
        selector&.instance_variable_set(OUTER, outer)
      end

      # Ends a call of a persistent session.
      def deactivate(selector, *)
        cut = HTTPXSessions.selectors ? HTTPXSessions.cut(selector) : []
        cut -= selector.instance_variable_get(OUTER) || []
        cut.each { |connection| neverblock_drop(connection, selector) }
        super
      end

      def neverblock_drop(connection, selector)
        selector.deregister(connection)
        @pool.neverblock_drop(connection)
        connection.to_io&.close
      rescue IOError, SystemCallError
        nil # it was closed already
      end
    end
  end
end

NB::Drivers.register("httpx", constant: "HTTPX::Session", version: "HTTPX::VERSION",
                              versions: ["~> 1.9"]) do |driver|
  NB::Drivers::HTTPXSessions.install(driver)
end

# frozen_string_literal: true

require "thin"
require_relative "../eventmachine"
require_relative "fiber_pool"

module NB
  # What `require "never_block/server/thin"` does since 2008: Thin runs each request in a fiber of a
  # pool, so requests that wait let others run. Two modules prepended to classes of Thin; new
  # programs serve by {NB::Server} or Puma, see docs/SERVER.md.
  module Thin
    # In Thin::Server.
    module Server
      # How many fibers, as in 2008.
      FIBER_POOL_SIZE = 20

      # @return [Integer] the most requests at work at a time, 1 or more; to be set before the first
      attr_writer :fiber_pool_size

      # @return [NB::Pool::FiberPool] that runs the requests
      def fiber_pool
        @fiber_pool ||= Pool::FiberPool.new(@fiber_pool_size || FIBER_POOL_SIZE)
      end
    end

    # In Thin::Connection.
    module Connection
      # As Thin does, but in a fiber. Until the application has answered nothing more is read: Thin
      # knows one request per connection at a time.
      # @api private
      def process
        return super if threaded?

        @request.threaded = false
        pause
        @backend.server.fiber_pool.spawn do
          result = pre_process
          resume # which writing needs, too
          post_process(result)
        end
      end
    end
  end
end

Thin::Server.prepend(NB::Thin::Server)
Thin::Connection.prepend(NB::Thin::Connection)

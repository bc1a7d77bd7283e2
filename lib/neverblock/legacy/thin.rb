# frozen_string_literal: true

require "thin"
require_relative "../eventmachine"
require_relative "fiber_pool"

module NB
  # The effect of `require "never_block/server/thin"` since 2008: Thin runs each request in a fiber
  # of a pool, so requests that wait let others run. Two modules are prepended to classes of Thin.
  # New programs use {NB::Server} or Puma, see docs/SERVER.md.
  module Thin
    # Prepended to Thin::Server.
    module Server
      # The default number of fibers, as in 2008.
      FIBER_POOL_SIZE = 20

      # @return [Integer] how many requests run at a time, 1 or more; set it before the first
      attr_writer :fiber_pool_size

      # @return [NB::Pool::FiberPool] that runs the requests
      def fiber_pool
        @fiber_pool ||= Pool::FiberPool.new(@fiber_pool_size || FIBER_POOL_SIZE)
      end
    end

    # Prepended to Thin::Connection.
    module Connection
      # Works like Thin's own method, but in a fiber. Nothing more is read until the application has
      # answered, because Thin knows one request per connection at a time.
      # @api private
      def process
        return super if threaded?

        @request.threaded = false
        pause
        @backend.server.fiber_pool.spawn do
          result = pre_process
          resume # writing needs this, too
          post_process(result)
        end
      end
    end
  end
end

Thin::Server.prepend(NB::Thin::Server)
Thin::Connection.prepend(NB::Thin::Connection)

# frozen_string_literal: true

require_relative "../loop/scheduler"
require_relative "../loop/offload"
require_relative "../sync/inheritance"

module NB
  module Drivers
    # Native threads for C calls that wait inside a library: more than {NB.offload} has, because
    # they only sleep. They end after some seconds without work.
    OFFLOAD_THREADS = 256

    class << self
      # Runs a C call on a native thread if a loop runs the caller, otherwise directly. A cancel or
      # a timeout waits for its end, because the call uses what the caller would free.
      #
      # @param cut [Proc, nil] makes the call end early, as an interrupt does in a thread; runs in
      #   the fiber that was interrupted
      # @return the block's value
      # @raise whatever the block raised
      # @scheduling always waits, inside a loop
      # @api private
      def offload(cut = nil, &block)
        return yield unless Fiber.current_scheduler.is_a?(Scheduler)

        pool.outlast(cut, &Inheritance.trace(block)).value
      end

      private

      # One per process: threads do not survive in a forked child.
      def pool
        @pool = nil unless @pool_pid == Process.pid
        @pool_pid = Process.pid
        @pool ||= Offload.new(size: OFFLOAD_THREADS)
      end
    end
  end
end

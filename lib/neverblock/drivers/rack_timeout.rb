# frozen_string_literal: true

require_relative "../sync/interruption"
require_relative "registry"

module NB
  module Drivers
    # rack-timeout raises on the thread of the late request, which in a loop is the thread of all
    # requests: it would end some other request, or the server. Here it raises in the fiber.
    module RackTimeout
      # Passed to rack-timeout in place of the request's thread.
      class Request
        def initialize
          @scheduler = Fiber.current_scheduler
          @fiber = Fiber.current
          @lock = Thread::Mutex.new
        end

        # The same as Thread#raise; called from the thread of rack-timeout.
        # @return [void]
        # @thread any
        def raise(error, message)
          @lock.synchronize do
            return if @ended

            @error = error.exception(message)
            Interruption.deliver(@scheduler, @fiber, @error)
          end
        end

        # Nothing is raised from now on. An exception that was sent but has not arrived is raised
        # here; otherwise it would meet the next request of this fiber.
        # @return [void]
        # @scheduling may wait
        def finish
          @lock.synchronize { @ended = true }
          sleep(0) while @error && !@error.backtrace
        end
      end

      # Prepended to Rack::Timeout::Scheduler::Timeout.
      module PerFiber
        # Works like rack-timeout's own method.
        # @api private
        def timeout(seconds)
          return super unless seconds&.positive? && RACK_TIMEOUT.on? && NB.running?

          request = Request.new
          job = @scheduler.run_in(seconds) { @on_timeout.call(request) }
          yield
        ensure
          job&.cancel!
          request&.finish
        end
      end
    end
  end
end

NB::Drivers.register("rack-timeout", constant: "Rack::Timeout::Scheduler::Timeout",
                                     features: %w[rack-timeout rack/timeout/base]) do |driver|
  NB::Drivers::RackTimeout.const_set(:RACK_TIMEOUT, driver)
  Rack::Timeout::Scheduler::Timeout.prepend(NB::Drivers::RackTimeout::PerFiber)
end

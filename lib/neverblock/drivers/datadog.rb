# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # Datadog keeps the active trace in a fiber-local, so code that a request starts by {NB.gather}
    # or {NB.async}, or that runs in an Enumerator, would begin traces of its own. With this cure, a
    # fiber continues the trace from the span in which it was started, in a part of its own, as
    # another process does. If two fibers shared one part, each would take the other's spans for its
    # parents.
    module Datadog
      # The loop's fiber keeps its context here, for the fibers inside it.
      CONTEXT = :@neverblock_datadog_context
      # A fiber inside it keeps the continued trace here, and the span it continues from.
      CONTINUED = :@neverblock_datadog_continued
      private_constant :CONTEXT, :CONTINUED

      # Prepended to Datadog::Tracing::FiberLocalContext.
      module Local
        # Works like Datadog's own method.
        # @api private
        def local=(context)
          Datadog.keep(context) unless LoopFiber.around
          super
        end

        # Works like Datadog's own method.
        # @api private
        def local(storage = Thread.current)
          context = super
          Datadog.found(context) if storage.equal?(Thread.current)
          context
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Datadog::Tracing::FiberLocalContext.prepend(Local)
          Inheritance.add(trace: true) { capture }
        end

        # Stores the context of the calling fiber, for the fibers inside it.
        #
        # @api private
        def keep(context) = Fiber.current.instance_variable_set(CONTEXT, context)

        # @param context [Datadog::Tracing::Context] of the calling fiber
        # @api private
        def found(context)
          return unless @driver.on? && Fiber.scheduler.is_a?(Scheduler)

          fiber = LoopFiber.around or return keep(context)
          outer = fiber.instance_variable_get(CONTEXT)&.active_trace
          continue(context, outer) if outer && !context.active_trace&.active_span
        end

        private

        # Until it has a span of its own, it follows the outer one.
        def continue(context, outer)
          ours, span = Fiber.current.instance_variable_get(CONTINUED)
          own = context.active_trace
          return if ours == :soon || (own && !own.equal?(ours))
          return if own && span == outer.active_span

          note(:soon) # the code that follows asks for the context, too
          context.activate!(nil)
          span = outer.active_span
          ours = ::Datadog::Tracing.continue_trace!(outer.to_digest)
        ensure
          note(ours, span) unless ours == :soon
        end

        def note(*values) = Fiber.current.instance_variable_set(CONTINUED, values)

        def capture
          trace = ::Datadog::Tracing.active_trace if @driver.on?
          return unless trace

          digest = trace.to_digest
          ->(block) { ::Datadog::Tracing.continue_trace!(digest) { block.call } }
        end
      end
    end

    register("datadog", constant: "Datadog::Tracing::FiberLocalContext", versions: "~> 2.0",
                        version: "Datadog::VERSION::STRING") do |driver|
      Datadog.install(driver)
    end
  end
end

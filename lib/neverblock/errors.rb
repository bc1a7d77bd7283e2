# frozen_string_literal: true

require "timeout"

module NB
  # Included in every error of NeverBlock, so `rescue NB::Error` catches them all. Each error also
  # descends from the class that plain Ruby code already rescues.
  module Error; end

  # Raised in a fiber to end it. It is not a StandardError, so `rescue => e` lets it pass; every
  # `ensure` runs. Its {#cause} is what {Task#cancel} was given.
  class Cancelled < ::Exception
    include Error

    # @return [Boolean, nil] whether a fiber has received it, or will at its next wait; nil: the
    #   sender was interrupted first
    # @api private
    attr_accessor :sent

    # @param cause [Exception, nil] why; set from the start, not only once the exception is raised
    # @param message [String]
    # @return [Cancelled] not raised yet, so without a backtrace
    # @raise [ArgumentError] if cause is something else
    def self.caused_by(cause, message)
      return new(message) if cause.nil?
      raise ArgumentError, "cause must be an Exception, got: #{cause.inspect}" unless
        cause.is_a?(::Exception)

      begin
        raise new(message), cause: cause # nothing but `raise` can set a cause
      rescue Cancelled => error
        error.set_backtrace(nil)
        error
      end
    end
  end

  # Exceptions that are errors of the code that raised them: they are reported or passed on. All
  # other exceptions are messages to the fiber, the thread or the process, and propagate:
  # SystemExit, Interrupt, {Cancelled}, the stop of another scheduler.
  FAILURES = [::StandardError, ::ScriptError, ::SystemStackError, ::NoMemoryError].freeze

  # For Thread.handle_interrupt: nothing interrupts. It names Object because with Exception,
  # Thread#kill would still get through.
  #
  # @api private
  UNINTERRUPTED = { ::Object => :never }.freeze

  # A `break` or `throw` out of a block that runs in a fiber of its own comes as an error to the
  # code that calls the block.
  #
  # @api private
  module Jump
    class << self
      # @param file [String] `__FILE__` of the code that calls the block
      # @return [Boolean] whether it is the block's own `break`
      def break?(error, file)
        error.is_a?(LocalJumpError) && error.reason == :break && from?(error, file)
      end

      # @return [Boolean] false: a thread or a task made it, and the block has waited for that one
      def from?(error, file)
        (error.backtrace_locations || []).any? { |place| place.path == file }
      end
    end
  end

  # `value` was called on a task that was cancelled. Unlike {Cancelled} this is a StandardError: the
  # caller was not cancelled, and must be able to tell the difference.
  class TaskCancelledError < ::RuntimeError
    include Error
  end

  # No scheduler runs here: wrap the call in `NB.run { }`, or call `Fiber.set_scheduler` first.
  class NoSchedulerError < ::RuntimeError
    include Error
  end

  # The scheduler, pool or queue was closed before this call.
  class ClosedError < ::RuntimeError
    include Error
  end

  # A loop belongs to one thread, and the call came from another.
  class WrongThreadError < ::ThreadError
    include Error
  end

  # The loop belongs to the parent process; this is a forked child.
  class ForkedError < ::RuntimeError
    include Error
  end

  # Every fiber waits for another, and nothing is left that could wake one. Like Ruby's own "No live
  # threads left. Deadlock?" it is not a StandardError. Its message names for each fiber the line of
  # the program that waits, and what it waits for. The text of {NB.dump} follows.
  class DeadlockError < ::Exception
    include Error
  end

  # A bounded queue is full.
  class QueueFullError < ::RuntimeError
    include Error
  end

  # A forked process gave no answer: it was killed, it exited, or its answer cannot be marshalled.
  class ProcessError < ::RuntimeError
    include Error
  end

  # A {Limiter} did not let the block start within the time limit.
  class LimiterTimeoutError < ::Timeout::Error
    include Error
  end

  # No connection became free within the time limit.
  class PoolTimeoutError < ::Timeout::Error
    include Error
  end
end

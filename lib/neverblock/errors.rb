# frozen_string_literal: true

require "timeout"

module NB
  # In every error of ours, so that `rescue NB::Error` finds them all while each also descends from
  # the class that plain Ruby code already rescues.
  module Error; end

  # Raised in a fiber to end it. Not a StandardError, so that `rescue => e` lets it pass; every
  # `ensure` runs. Its {#cause} is what {Task#cancel} was given.
  class Cancelled < ::Exception
    include Error

    # @return [Boolean, nil] whether a fiber has it, or will have it at its next wait; nil: who was
    #   to send it was interrupted before
    # @api private
    attr_accessor :sent

    # @param cause [Exception, nil] why; there from the start, not only once this has been raised
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

  # What is an error of the code that raised it, to be reported or handed on. The other exceptions
  # are messages to the fiber, the thread or the process, and go their way: SystemExit, Interrupt,
  # {Cancelled}, the stop of another scheduler.
  FAILURES = [::StandardError, ::ScriptError, ::SystemStackError, ::NoMemoryError].freeze

  # For Thread.handle_interrupt: nothing interrupts. Of all Objects: with Exception instead,
  # Thread#kill would pass.
  #
  # @api private
  UNINTERRUPTED = { ::Object => :never }.freeze

  # The value of a task was asked for, and the task was cancelled. A StandardError, unlike
  # {Cancelled}: the one who asks was not cancelled, and must be able to tell.
  class TaskCancelledError < ::RuntimeError
    include Error
  end

  # No scheduler runs here: the call needs `NB.run { }` or `Fiber.set_scheduler` around it.
  class NoSchedulerError < ::RuntimeError
    include Error
  end

  # The scheduler, pool or queue was closed before this call.
  class ClosedError < ::RuntimeError
    include Error
  end

  # A loop belongs to one thread; the call came from another.
  class WrongThreadError < ::ThreadError
    include Error
  end

  # The loop belongs to the parent process; this is a forked child.
  class ForkedError < ::RuntimeError
    include Error
  end

  # Every fiber waits for another and nothing is left that could wake one. Like Ruby's own
  # "No live threads left. Deadlock?" it is not a StandardError. Its message tells for each fiber
  # which line of the program waits, and what for; then it holds {NB.dump}.
  class DeadlockError < ::Exception
    include Error
  end

  # A queue with a limit is full.
  class QueueFullError < ::RuntimeError
    include Error
  end

  # A forked process gave no answer: it was killed, it exited, or what it would have sent cannot
  # be marshalled.
  class ProcessError < ::RuntimeError
    include Error
  end

  # A {Limiter} had no turn to give in time.
  class LimiterTimeoutError < ::Timeout::Error
    include Error
  end

  # No connection came free in time.
  class PoolTimeoutError < ::Timeout::Error
    include Error
  end
end

# frozen_string_literal: true

require_relative "offload"

module NB
  # Work that the scheduler's C hooks pass to native threads because it has to call Ruby.
  module Operations
    private

    # Waits for what has no pidfd: any child, or a process group. The thread only looks and reaps
    # nothing, so an interrupted wait loses no status.
    def await_child(pid, flags)
      thread = Thread.new { Native.await_child(pid, flags) }
      thread.report_on_exception = false
      thread.value
    ensure
      thread&.kill
    end

    # The work of a blocking_operation_wait hook. Ruby keeps it on the caller's stack, so even an
    # interrupted fiber has to stay until the work has ended.
    def offload_operation(work)
      Offload.default.outlast { work.call }
      nil
    end

    # The work of such a hook that is wrapped in Ruby and may not decline. It runs as Ruby would run
    # it, in a fiber that asks no scheduler.
    def do_operation(work) = Fiber.new(blocking: true) { work.call }.resume

    # Urgent: all threads of the pool may wait for that close. It is told truly even to a fiber that
    # is interrupted: Ruby would close the fd again, which may be another's by then.
    # @return [Boolean] whether a thread has closed it; not in a trap handler, and without room for
    #   a thread
    def close_elsewhere(fd)
      closed = false
      Offload.default.outlast(urgent: true) { (closed = true) && IO.for_fd(fd).close }
      closed
    rescue ThreadError
      raise if closed

      false
    end
  end
end

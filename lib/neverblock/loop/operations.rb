# frozen_string_literal: true

require_relative "offload"

module NB
  # What the scheduler's C hooks hand to native threads because it has to call Ruby there.
  module Operations
    private

    # Waits for what has no pidfd: any child, a process group. The thread only looks (it reaps
    # nothing), so when the wait is interrupted no status can get lost with it.
    def await_child(pid, flags)
      thread = Thread.new { Native.await_child(pid, flags) }
      thread.report_on_exception = false
      thread.value
    ensure
      thread&.kill
    end

    # The work of a blocking_operation_wait hook. Ruby keeps it on the caller's stack: even a fiber
    # that is raised at has to stay until the work has ended.
    def offload_operation(work)
      thread = Offload.default.start { work.call }
      begin
        thread.wait
      rescue Exception # rubocop:disable Lint/RescueException -- raised again once the work has ended
        thread.wait until thread.done?
        raise
      end
    end

    # The work of such a hook that is wrapped in Ruby and may not decline: as Ruby would do it, in a
    # fiber in which it asks no scheduler.
    def do_operation(work) = Fiber.new(blocking: true) { work.call }.resume
  end
end

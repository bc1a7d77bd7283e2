# frozen_string_literal: true

require_relative "offload"

module NB
  # What the scheduler's C hooks hand to native threads because it has to call Ruby there.
  module Operations
    private

    # waitpid(2) for what has no pidfd: any child, a process group.
    def process_wait_in_thread(pid, flags)
      Thread.new { Process::Status.wait(pid, flags) }.value
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
  end
end

# frozen_string_literal: true

require_relative "worker_process"

module NB
  class Server
    # How a master finds out that a worker has ended, stands still or is to be replaced.
    #
    # @api private
    module Supervision
      # Seconds of a master's turn at most, unless it was stopped, had no core, or ran a hook.
      TURN = 1

      private

      # A terminal's Ctrl-Z, or a container that is paused, stops the workers, too: when all go on,
      # none of them is to be killed because it was silent meanwhile.
      def excuse
        last, @turned = @turned, now
        late = @turned - last - TURN
        all_workers.each_value { |worker| worker.excuse(late) } if late.positive?
      end

      # Waits only for our own children: a thread of the application in this process may wait for a
      # child of its own. If it waits for any child, it may get a worker's status.
      def reap
        reap_orphans if Process.pid == 1
        all_workers.each_value do |worker|
          _, status = Process.wait2(worker.pid, Process::WNOHANG)
          ended(worker, status) if status
        rescue Errno::ECHILD
          ended(worker, nil)
        end
      end

      # The first process of a container has children that it did not start.
      def reap_orphans
        while (pid, status = Process.wait2(-1, Process::WNOHANG))
          worker = all_workers[pid] and ended(worker, status)
        end
      rescue Errno::ECHILD
        # no child is left
      end

      def ended(worker, status)
        worker.read # its last report
        @tally.ended(worker, failed: !(status.nil? || status.success?)) do
          @replacing.delete(worker.pid)
          @workers = @workers.except(worker.pid)
          @old_workers = @old_workers.except(worker.pid)
        end
        @launcher.worker_ended(worker)
        return if @stopping

        back_off if worker.ended_at_once?
        fate = worker.fate(status) or return
        @out.write("worker #{worker.index} (#{worker.pid}) #{fate}\n")
      end

      def look_after
        all_workers.each_value do |worker|
          kill(worker, "#{worker.silence} (worker_timeout)") if
            worker.stuck_for > @config.worker_timeout
          kill(worker, "did not end in its time") if worker.overdue?
          kill(worker, "did not begin within #{WorkerProcess::BIRTH} s (see ruby/ruby#12981)") if
            worker.unborn?
          @replacing |= [worker.pid] if worker.used_up?(@config) && @workers.key?(worker.pid)
        end
        retire
        announce
      end

      # One at a time: an old worker ends once its successor serves.
      def retire
        return if @replacing.empty? || @stopping || @workers.size <= @size
        return if @workers.each_value.any? { |worker| worker.leaving || !worker.ready? }

        dismiss(@workers[@replacing.first])
      end

      # Told once: a large process takes a while to end.
      def kill(worker, reason)
        @out.write("worker #{worker.index} (#{worker.pid}): #{reason}, killing it\n") unless
          worker.killed
        worker.kill
      end
    end
  end
end

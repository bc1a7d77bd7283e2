# frozen_string_literal: true

require_relative "../errors"
require_relative "../sync/job_counts"

module NB
  module Rails
    # Tells {JobCounts} of Active Job's jobs, on whatever queue and in threads, too. A job that
    # `retry_on` or `discard_on` takes care of has not failed.
    module CountedJobs
      # What Active Job tells before a job's run ends without an error, and how it has ended.
      FATES = { "enqueue_retry.active_job" => :retried, "discard.active_job" => :discarded,
                "retry_stopped.active_job" => :discarded }.freeze
      # A job keeps its fate here until its run ends.
      FATE = :@neverblock_fate
      private_constant :FATES, :FATE

      class << self
        # @return [void]
        # @scheduling never waits
        def install
          return if @installed

          @installed = true
          ["perform.active_job", *FATES.keys].each do |name|
            ActiveSupport::Notifications.subscribe(name, self)
          end
        end

        # Counts a job that begins; Notifications calls it.
        #
        # @return [void]
        # @api private
        def start(name, _id, payload)
          return if FATES.key?(name)

          payload[:job].instance_variable_set(FATE, nil) # also one set outside a run
          JobCounts.begin(payload)
        end

        # Counts a job that has ended; Notifications calls it.
        #
        # @return [void]
        # @api private
        def finish(name, _id, payload)
          job = payload[:job]
          return job.instance_variable_set(FATE, FATES[name]) if FATES.key?(name)

          fate = job.instance_variable_get(FATE)
          JobCounts.end(payload, status(payload[:exception_object], fate))
        end

        private

        def status(error, fate)
          case error
          when nil then fate || :done
          when Cancelled then :stopped
          else :failed
          end
        end
      end
    end
  end
end

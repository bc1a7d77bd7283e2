# frozen_string_literal: true

require_relative "../errors"
require_relative "../sync/job_counts"

module NB
  module Rails
    # Tells {JobCounts} of Active Job's jobs, on whatever queue and in threads, too. A job that
    # `retry_on` or `discard_on` takes care of has not failed.
    module CountedJobs
      class << self
        # @return [void]
        # @scheduling never waits
        def install
          return if @installed

          @installed = true
          ActiveSupport::Notifications.subscribe("perform.active_job", self)
        end

        # Counts a job that begins; Notifications calls it.
        #
        # @return [void]
        # @api private
        def start(_name, _id, payload) = JobCounts.begin(payload)

        # Counts a job that has ended; Notifications calls it.
        #
        # @return [void]
        # @api private
        def finish(_name, _id, payload)
          JobCounts.end(payload, status(payload[:exception_object]))
        end

        private

        def status(error)
          case error
          when nil then :done
          when Cancelled then :stopped
          else :failed
          end
        end
      end
    end
  end
end

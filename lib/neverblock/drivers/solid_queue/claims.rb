# frozen_string_literal: true

require_relative "../../loop/io_users"

module NB
  module Drivers
    module SolidQueue
      # Prepended to SolidQueue::Worker. A worker claims as many jobs as it has room for, and then
      # loads the row of each by a query of its own. For a hundred fibers that are a hundred queries
      # in a row; here it is one. Threads claim a few at a time, and are left as they are.
      module Claims
        private

        # Works like Solid Queue's own method, but the jobs are loaded.
        def claim_executions
          super.tap { |executions| load_jobs(executions) if pool.is_a?(FiberPool) }
        end

        # Works like Solid Queue's own method. This thread uses a pipe and database connections of
        # its own, which no job closes.
        def start_loop
          pool.is_a?(FiberPool) ? IOUsers.only(self_pipe[:reader]) { super } : super
        end

        # The jobs are claimed: what fails here must not keep them from their fibers, where each
        # loads what it lacks.
        def load_jobs(executions)
          return if executions.size < 2

          with_polling_volume do
            ActiveRecord::Associations::Preloader.new(records: executions, associations: :job).call
          end
        rescue StandardError => error
          ::Rails.error.report(error, handled: true, source: "application.solid_queue")
        end
      end
    end
  end
end

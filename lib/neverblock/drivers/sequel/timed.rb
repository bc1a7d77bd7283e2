# frozen_string_literal: true

require_relative "../../sync/database_time"

module NB
  module Drivers
    module Sequel
      # Counts what Sequel sends, and the time to its answer, for `nb_database_…` in `/metrics`.
      # Every adapter sends by this method, which also writes Sequel's log. Also notes a query that
      # was interrupted.
      module Timed
        # @yield sends
        # @return the block's value
        # @scheduling may wait
        # @thread any
        def log_connection_yield(_sql, connection, *)
          began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          super
        rescue Exception # rubocop:disable Lint/RescueException -- also that of a cancel
          Sequel.note_interruption(connection)
          raise
        ensure
          DatabaseTime.count(adapter_scheme.to_s,
                             Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)
        end
      end
    end
  end
end

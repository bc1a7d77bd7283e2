# frozen_string_literal: true

require_relative "../../sync/database_time"

module NB
  module Drivers
    module Sequel
      # Counts what Sequel sends, and the time to its answer, for `nb_database_…` in `/metrics`.
      # Every adapter sends by this method, which also writes Sequel's log.
      module Timed
        # @yield sends
        # @return the block's value
        # @scheduling may wait
        # @thread any
        def log_connection_yield(...)
          began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          super
        ensure
          DatabaseTime.count(adapter_scheme.to_s,
                             Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)
        end
      end
    end
  end
end

# frozen_string_literal: true

require_relative "database_config"

module NB
  module Rails
    # Prepended to ActiveRecord's pool. Code that wants all connections (`disconnect!`,
    # `clear_reloadable_connections!`, `establish_connection`) waits for twice `checkout_timeout`,
    # and then goes on without those that somebody keeps. Meanwhile nobody else gets one. Our
    # `checkout_timeout` is for waiting in line and far longer than Rails': one fiber that keeps a
    # connection would stop all others for two minutes. So this wait is as long as Rails' own,
    # unless the application has chosen a `checkout_timeout`.
    module ExclusiveAccess
      # Seconds: twice the `checkout_timeout` of Rails.
      LONGEST = 10

      private

      # Works like Rails' own method, which gets what is left of twice `checkout_timeout`.
      def checkout_for_exclusive_access(timeout)
        return super if db_config.configuration_hash[:checkout_timeout]

        excess = [(checkout_timeout * 2) - LONGEST, 0].max
        super([timeout - excess, 0].max)
      end
    end
  end
end

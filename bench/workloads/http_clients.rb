# frozen_string_literal: true

require_relative "buffers"

module Bench
  module Workloads
    # Downloads from one of the sites of `nb rubyhttp` with one HTTP client, in parts where it can.
    class HttpClients < Buffers
      # Only the client that is measured is loaded.
      def before
        reason = NB::CLI::RubyhttpClients.missing(params[:impl])
        raise LoadError, reason if reason
      end
    end
  end
end

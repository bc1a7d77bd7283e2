# frozen_string_literal: true

require_relative "net_http"

module Bench
  module Workloads
    # Net::HTTP fetching a body that does not fit a socket buffer at once.
    class Download < NetHttp
      DEFAULTS = { clients: 20, requests: 20, bytes: 256 * 1024 }.freeze
    end
  end
end

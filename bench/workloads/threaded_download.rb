# frozen_string_literal: true

require_relative "threaded_server"

module Bench
  module Workloads
    # The same with a body of a megabyte.
    class ThreadedDownload < ThreadedServer
      DEFAULTS = { clients: 20, requests: 5, bytes: 1 << 20 }.freeze
    end
  end
end

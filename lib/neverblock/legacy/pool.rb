# frozen_string_literal: true

require_relative "names"

module NB
  # The pools of 2008.
  module Pool
    autoload :FiberPool, "neverblock/legacy/fiber_pool"
    autoload :FiberedConnectionPool, "neverblock/legacy/fibered_connection_pool"
  end
end
